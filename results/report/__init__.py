"""Reports of a finished run: a page for a person, Markdown for an issue, JUnit for a build server, a script to repeat it."""
