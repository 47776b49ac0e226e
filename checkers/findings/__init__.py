"""What checkers report: the catalogue of anomalies, and explanations."""
