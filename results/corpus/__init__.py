"""Corpus: many runs as tables that are built by Spark, one commit for each batch of runs, and the questions that are asked of them.

`tables` are the schemas, `documents` makes rows of a run's summary, `commits` says which files count, `building` reads and writes,
`queries` are the shipped questions, `reading` opens the small tables without Spark.
"""
