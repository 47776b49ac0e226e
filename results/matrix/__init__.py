"""The matrix: systems across, anomalies down, every cell with the tries behind it."""
