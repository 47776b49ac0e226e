"""TLS: how a session with a node is encrypted, and by whom the node's certificate must be vouched for.

There is no way to leave the certificate unverified: what is asked of a cluster whose identity nobody knows proves nothing.
"""

from __future__ import annotations

import ssl

from pydantic import BaseModel, ConfigDict, model_validator

from schemaquake.clusters.cluster_file.local_path import LocalPath
from schemaquake.harness.errors import EnvironmentLacks

__all__ = ["Tls"]


class Tls(BaseModel):
    """Files by name only, so that it goes to other processes; without `ca`, the machine's own authorities vouch."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)

    ca: LocalPath | None = None
    certificate: LocalPath | None = None
    key: LocalPath | None = None
    verify_hostname: bool = True
    """Whether the certificate must name the node's address, too."""

    @model_validator(mode="after")
    def _certificate_with_key(self) -> Tls:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("a client's certificate is worth nothing without its key; write both, certificate and key")
        return self

    def context(self) -> ssl.SSLContext:
        """For the process that opens sessions. Raises EnvironmentLacks, naming the file that cannot be used."""
        try:
            context = ssl.create_default_context(cafile=self.ca)
        except (OSError, ssl.SSLError) as error:
            raise EnvironmentLacks(
                f"{self.ca}, the [tls] ca of the cluster file, cannot be used: {_said(error)}"
            ) from error
        context.check_hostname = self.verify_hostname
        if self.certificate is not None:
            try:
                # Without a password: a key that needs one would be asked for on the terminal.
                context.load_cert_chain(self.certificate, self.key, password="")
            except (OSError, ssl.SSLError) as error:
                raise EnvironmentLacks(
                    f"{self.certificate} and {self.key}, the [tls] certificate and key of the cluster file, cannot be "
                    f"used: {_said(error)}"
                ) from error
        return context


def _said(error: OSError) -> str:
    return error.strerror or str(error)
