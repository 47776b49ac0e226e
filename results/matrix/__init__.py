"""The matrix: systems across, anomalies down, with the evidence behind every cell."""
