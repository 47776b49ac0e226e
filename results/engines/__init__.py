"""Engines: checks executed in this process or on Spark, as a whole or piece by piece."""
