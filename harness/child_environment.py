"""Child environment: what programs that the harness starts inherit, so that no secret goes to one that has no use for it.

An owner's environment may hold passwords (`[credentials]` of a cluster file) and tokens of a CI. Resolvers, Java and system
tools get what every program needs and the variables that are named for them; `SCHEMAQUAKE_PASS_ENV=NAME,NAME` adds
others, for example those that a Maven settings file refers to.
"""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from typing import Final

__all__ = ["FETCHING", "JAVA", "child_environment"]

_ALWAYS: Final = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR", "XDG_*")
JAVA: Final = ("JAVA_HOME", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "LD_LIBRARY_PATH")
"""The variables of programs in Java."""
FETCHING: Final = (
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"),
)
"""The variables of programs that ask the network."""
_ADDED: Final = "SCHEMAQUAKE_PASS_ENV"


def child_environment(*names: str) -> dict[str, str]:
    """Return the variables that every program needs and those with these names (a `*` at the end stands for any rest)."""
    wanted = (*_ALWAYS, *names, *filter(None, os.environ.get(_ADDED, "").split(",")))
    return {
        name: value for name, value in os.environ.items() if any(fnmatchcase(name, each.strip()) for each in wanted)
    }
