"""Engines: checks carried out here or on Spark, whole or piece by piece."""
