"""Where the system under test lives, and what it is."""
