"""Fidelity: a simulated system against the recorded grid of the real one."""
