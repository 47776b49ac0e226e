"""Plugins for Schemaquake that live outside its tree: they import `schemaquake.api` and nothing else of it."""
