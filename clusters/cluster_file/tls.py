"""TLS: the encryption of sessions with nodes, and the authority that must have signed a node's certificate.

Certificates are always verified: results of a cluster whose identity is unknown would prove nothing.
"""

from __future__ import annotations

import ssl

from pydantic import BaseModel, ConfigDict, model_validator

from schemaquake.clusters.cluster_file.local_path import LocalPath
from schemaquake.harness.errors import EnvironmentLacks

__all__ = ["Tls"]


class Tls(BaseModel):
    """The files of TLS by name, so that it can be pickled; without `ca` the machine's own authorities are trusted."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)

    ca: LocalPath | None = None
    certificate: LocalPath | None = None
    key: LocalPath | None = None
    verify_hostname: bool = True
    """True if the certificate must name the node's address."""

    @model_validator(mode="after")
    def _certificate_with_key(self) -> Tls:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("a client's certificate needs its key; write both, certificate and key")
        return self

    def context(self) -> ssl.SSLContext:
        """Load the files in the process that opens sessions. Raises EnvironmentLacks, naming the unusable file."""
        try:
            context = ssl.create_default_context(cafile=self.ca)
        except (OSError, ssl.SSLError) as error:
            raise EnvironmentLacks(
                f"{self.ca}, the [tls] ca of the cluster file, cannot be used: {_reason(error)}"
            ) from error
        context.check_hostname = self.verify_hostname
        if self.certificate is not None:
            try:
                # An empty password, so that an encrypted key fails instead of prompting on the terminal.
                context.load_cert_chain(self.certificate, self.key, password="")
            except (OSError, ssl.SSLError) as error:
                raise EnvironmentLacks(
                    f"{self.certificate} and {self.key}, the [tls] certificate and key of the cluster file, cannot be "
                    f"used: {_reason(error)}"
                ) from error
        return context


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
