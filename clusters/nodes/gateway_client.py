"""A client of a Py4J gateway that raises what this gateway threw, whatever else uses Py4J in the process.

From its first session on, PySpark has all of Py4J ask Spark's own virtual machine what an error is (`install_exception_handler`),
about objects of other gateways too, which that one does not have or takes for others.
"""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import GatewayClient, GatewayConnection
from py4j.protocol import get_return_value, is_error

__all__ = ["OwnErrors"]


class OwnErrors(GatewayClient):  # type: ignore[misc]
    """Raises errors while the answer is read, before anybody's handler of errors is asked; leaves no socket open where none answers."""

    def send_command(self, command: str, retry: bool = True, binary: bool = False) -> Any:
        """Send a command; return the answer in Py4J's protocol. Raises Py4JJavaError, Py4JError."""
        answer = super().send_command(command, retry, binary)
        if not binary and is_error(answer)[0]:
            get_return_value(answer, self)
        return answer

    def _create_connection(self) -> Any:
        connection = GatewayConnection(self.gateway_parameters, self.gateway_property)
        try:
            connection.start()
        except Exception:
            connection.socket.close()  # of a gateway that was ended while it was asked
            raise
        return connection
