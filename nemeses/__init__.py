"""What goes wrong: partitions, kills, pauses, clock skew, packet loss."""
