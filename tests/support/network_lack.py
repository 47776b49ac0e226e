"""Whether a download failed for want of a network: the one failure of a download for which a test may be skipped."""

from __future__ import annotations

import re

_OF_RESOLVERS = r"Unknown host|Host \S+ not found|Server access|transfer"
_OF_DEBOOTSTRAP = r"Failed getting release file|Couldn't download|did not end within"
_OF_A_MACHINE = r"this machine is no Debian|apt names no mirror"


def is_network_lack(error: str) -> bool:
    """Tell if Maven, Ivy or debootstrap say so, or the machine has no mirror that debootstrap could ask."""
    return re.search(f"{_OF_RESOLVERS}|{_OF_DEBOOTSTRAP}|{_OF_A_MACHINE}", error) is not None
