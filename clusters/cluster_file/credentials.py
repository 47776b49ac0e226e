"""Credentials: references to a user name and a password, never the secrets themselves.

A cluster file, a plan, a pickle and a log hold references only. The process that opens a session reads the secrets
then, and removes them from every text that the session returns.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, model_validator

from schemaquake.clusters.cluster_file.local_path import LocalPath
from schemaquake.harness.errors import EnvironmentLacks

__all__ = ["CredentialReference", "Credentials", "Login"]

_ENVIRONMENT_NAME: Final = r"^[A-Za-z_][A-Za-z0-9_]*$"
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_HIDDEN: Final = "***"


class CredentialReference(BaseModel):
    """A reference to one secret: an environment variable, or a file that only its owner may read."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)

    env: str | None = Field(default=None, pattern=_ENVIRONMENT_NAME)
    file: LocalPath | None = None

    @model_validator(mode="after")
    def _check_single_source(self) -> CredentialReference:
        if (self.env is None) == (self.file is None):
            raise ValueError('a secret is in one place; write { env = "NAME" } or { file = "/path" }')
        return self

    def resolve(self) -> str:
        """Read the secret, without a file's final newline. Raises EnvironmentLacks, which names the place only."""
        return self._read_environment(self.env) if self.env is not None else self._read_file(Path(str(self.file)))

    def _read_environment(self, name: str) -> str:
        value = os.environ.get(name, "")
        if not value:
            raise EnvironmentLacks(
                f"the environment variable {name}, to which the cluster file refers, is not set: export it"
            )
        return value

    def _read_file(self, path: Path) -> str:
        try:
            with path.open("rb") as file:
                # The mode of the opened file, because the name may point to another file by now.
                mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
                content = file.read()
        except OSError as error:
            raise EnvironmentLacks(
                f"{path}, to which the cluster file refers for a secret, cannot be read: {error.strerror}"
            ) from error
        if mode & _OTHERS:
            raise EnvironmentLacks(f"{path} holds a secret and has mode {mode:04o}: chmod 600 {path}")
        try:
            secret = content.decode().removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError:
            raise EnvironmentLacks(f"{path} must hold one line of text, and is not text") from None
        if not secret or "\n" in secret:
            raise EnvironmentLacks(
                f"{path} must hold one line with the secret, and holds {'more' if secret else 'none'}"
            )
        return secret

    def __str__(self) -> str:
        return f"${self.env}" if self.env is not None else str(self.file)


class Credentials(BaseModel):
    """The user of a session, as two references. Picklable, so that worker processes can resolve them."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)

    username: CredentialReference
    password: CredentialReference

    def resolve(self) -> Login:
        """Read both secrets. Raises EnvironmentLacks as `CredentialReference.resolve` does."""
        return Login(self.username.resolve(), self.password.resolve())

    def __str__(self) -> str:
        return f"user name from {self.username}, password from {self.password}"


@dataclass(frozen=True, slots=True)
class Login:
    """A user name and a password while a session is open; its text shows neither."""

    username: str = field(repr=False)
    password: str = field(repr=False)

    def hide(self, text: str) -> str:
        """Replace the user name and the password in a text where they stand as separate words.

        As words: with the superuser's default, `cassandra`, the name of every Java class would be removed, too, and
        errors are distinguished by those names.
        """
        for secret in (self.password, self.username):
            text = re.sub(rf"(?<![\w./]){re.escape(secret)}(?!\w|[./]\w)", _HIDDEN, text)
        return text
