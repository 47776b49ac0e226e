"""Docker: clusters in containers, and the images for them."""
