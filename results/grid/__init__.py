"""The grid of pairs: every cell raced on every version, one page, and what differs between versions."""
