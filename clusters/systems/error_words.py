"""Error words: an error as the records keep it, in the server's words, on one line."""

from __future__ import annotations

__all__ = ["error_words"]


def error_words(error: BaseException, *, most: int = 600) -> str:
    """The class first, then the text, at most so many characters of it."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:most]
