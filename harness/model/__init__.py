"""The values and protocols that every other room speaks in."""
