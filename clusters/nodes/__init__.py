"""Nodes, wherever they run: the shared node and its parts, services, guards, clocks and transports."""
