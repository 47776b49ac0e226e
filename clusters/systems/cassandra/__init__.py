"""Cassandra: its lines of releases, and the designs by which they have stored their schema, a module each."""
