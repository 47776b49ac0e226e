"""`schemaquake image cassandra:5.0.9`: an image of one version, built by the user's own engine from the cached jars.

For machines that reach no registry, and for versions that have no image anywhere. Where one can be reached, any image
that takes the official one's variables will do: `--cluster docker -O image=cassandra:5.0`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from schemaquake.clusters.distribution.fetch import fetch
from schemaquake.clusters.docker.debian_base import ensure_base
from schemaquake.clusters.docker.engine import DockerEngine
from schemaquake.clusters.docker.image_context import write_context
from schemaquake.clusters.systems.system import System, recipe_for
from schemaquake.harness.errors import PlanError

__all__ = ["DIGEST_LABEL", "SYSTEM_LABEL", "Built", "build_image", "image_name"]

SYSTEM_LABEL: Final = "io.schemaquake.system"
DIGEST_LABEL: Final = "io.schemaquake.digest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A built image: its name, the base that it was built on, and the digest of its jars."""

    name: str
    base: str
    digest: str


def image_name(system: System) -> str:
    """Name the image of a system: `schemaquake/cassandra:5.0.9`."""
    return f"schemaquake/{system.product}:{system.version}"


def build_image(
    engine: DockerEngine,
    system: System,
    *,
    base: str | None = None,
    suite: str | None = None,
    mirror: str | None = None,
    distribution: Path | None = None,
    progress: Callable[[str], None],
) -> Built:
    """Build the image of that version on `base`, or on a Debian base that is made for it.

    Raises PlanError for a version that the base's Java does not run, EnvironmentLacks, FetchError, ClusterError.
    """
    recipe = recipe_for(system)
    jars = fetch(system.jars or system.version, distribution=distribution, progress=progress)
    if base is None:
        base, java = ensure_base(engine, suite=suite, mirror=mirror, progress=progress)
        oldest, newest = recipe.java
        if not oldest <= java <= newest:
            raise PlanError(
                f"{system} runs on Java {oldest} to {newest}, but {base} has Java {java}: choose another suite, for "
                "example --suite bookworm, or an image with such a Java with --base"
            )
    else:
        engine.image(base)
    name = image_name(system)
    labels: Mapping[str, str] = {SYSTEM_LABEL: str(system), DIGEST_LABEL: jars.digest}
    progress(f"{name}: building upon {base}")
    with tempfile.TemporaryFile() as context:
        write_context(context, system, jars)
        context.seek(0)
        engine.build_image(context, name, arguments={"BASE": base}, labels=labels)
    return Built(name=name, base=base, digest=jars.digest)
