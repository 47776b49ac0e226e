"""The system under test: what it is, how it is spoken to, and the kinds of cluster in which it runs."""
