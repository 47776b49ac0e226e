"""Process faults: servers killed, stopped, paused, restarted, or failing at a named place."""
