"""Answers of servers: an error's class and words, as the driver of a real server would raise it."""

from __future__ import annotations

from functools import cache

__all__ = ["ServerSaid", "as_exception"]

_JAVA = {
    "InvalidRequest": "org.apache.cassandra.exceptions.InvalidRequestException",
    "ConfigurationException": "org.apache.cassandra.exceptions.ConfigurationException",
    "MissingColumns": "org.apache.cassandra.schema.SchemaKeyspace$MissingColumns",
}


class ServerSaid(Exception):
    """A refusal or a failure: `error` is the class as drivers name it, the text is the server's."""

    def __init__(self, error: str, text: str, *, flaw: str = "") -> None:
        super().__init__(text)
        self.error = error
        self.flaw = flaw
        """The flaw of a design without which what a load fails on would not be on the disk."""

    @property
    def stack(self) -> str:
        """The first line of the server's stack trace."""
        return f"{_JAVA.get(self.error, self.error)}: {self}"


@cache
def _class(name: str) -> type[Exception]:
    return type(name, (Exception,), {})


def as_exception(said: ServerSaid) -> Exception:
    """Return the error as tables of outcomes know it: by the name of its class."""
    return _class(said.error)(str(said))
