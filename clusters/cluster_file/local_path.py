"""Local path: a path on the harness's own machine, as written in a cluster file.

From the root or from the home folder: the cluster file is copied into every run's folder, where a relative path
would point to another file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator

__all__ = ["LocalPath"]


def _expanded(value: Any) -> Any:
    if not isinstance(value, str):
        return value  # pydantic refuses it for its type
    try:
        path = Path(value).expanduser()
    except RuntimeError:
        raise ValueError("the home folder of that user is not known; write the path from the root, /…") from None
    if not path.is_absolute():
        raise ValueError("a relative path points elsewhere once the file is copied; write it from / or from ~/")
    return path


LocalPath: TypeAlias = Annotated[Path, BeforeValidator(_expanded)]
