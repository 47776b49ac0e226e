"""Clusters in containers, and the images for them."""
