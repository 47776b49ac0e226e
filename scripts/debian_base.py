"""Make this machine's Debian base once, as an archive that the tests of images import: `debian_base.py ARCHIVE`.

Debootstrap takes most of a minute of a core; each run of the tests has a docker engine of its own, which has no image.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from schemaquake.clusters.docker.debian_base import own_suite, packed_base
from schemaquake.harness.errors import SchemaquakeError


def main() -> None:
    """Write the archive to the path that the command names, whole or not at all."""
    target = Path(sys.argv[1])
    part = target.with_suffix(".part")
    try:
        with packed_base(own_suite(), mirror=None, progress=lambda _: None) as archive, part.open("wb") as file:
            shutil.copyfileobj(archive, file, 1 << 20)
    except SchemaquakeError as error:
        sys.exit(str(error))
    part.replace(target)


if __name__ == "__main__":
    main()
