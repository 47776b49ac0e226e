"""A server that stands in for Cassandra where only its process matters: it answers OPTIONS, logs, and ends when told.

    python stand_in_server.py ADDRESS PORT LOG [stubborn|broken|mute|slow:SECONDS]

slow: it takes that long to end. stubborn: SIGTERM does not end it. broken: it ends at once, with an error in its log. mute: it never listens.
"""

from __future__ import annotations

import signal
import socket
import struct
import sys
import threading
import time

SUPPORTED = struct.pack(">BBhBi", 0x84, 0, 0, 0x06, 2) + b"\0\0"


def main(address: str, port: str, log: str, how: str = "") -> None:
    def say(text: str) -> None:
        with open(log, "a", encoding="utf-8") as file:  # noqa: PTH123 - a server as plain as can be
            file.write(f"INFO  [main] 2026-01-01 09:00:00,123 Server.java:1 - {text}\n")

    def end(*_: object) -> None:
        time.sleep(float(how.removeprefix("slow:")) if how.startswith("slow:") else 0)
        say("shutting down")
        sys.exit(0)

    signal.signal(signal.SIGTERM, (lambda *_: say("not now")) if how == "stubborn" else end)
    if how == "broken":
        with open(log, "a", encoding="utf-8") as file:  # noqa: PTH123 - the same
            file.write("ERROR [main] 2026-01-01 09:00:00,123 Server.java:2 - Exception encountered during startup\n")
            file.write("java.lang.IllegalStateException: no tokens left\n")
        sys.exit(3)
    print("starting", flush=True)  # noqa: T201 - what a server prints is under test
    if how == "mute":
        signal.pause()
    listener = socket.create_server((address, int(port)), reuse_port=True)
    say(f"listening on {address}")

    def answer() -> None:
        while True:
            connection, _ = listener.accept()
            with connection:
                if connection.recv(9):
                    connection.sendall(SUPPORTED)

    threading.Thread(target=answer, daemon=True).start()
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main(*sys.argv[1:])
