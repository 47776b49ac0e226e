"""What the tests of deployed clusters share: an engine of their own, and images for it."""

from docker_engine_fixture import bare_image, engine_host, small_image

__all__ = ["bare_image", "engine_host", "small_image"]
