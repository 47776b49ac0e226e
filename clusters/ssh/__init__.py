"""SSH: commands and files on a host over a verified, authenticated connection."""
