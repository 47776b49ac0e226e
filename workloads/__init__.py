"""What the workers do: racing DDL, reads and writes, and the reads that judge them."""
