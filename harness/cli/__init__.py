"""The command line, and the kernel's own commands."""
