"""Upgrades: nodes become another version, one after another, while everything else goes on."""
