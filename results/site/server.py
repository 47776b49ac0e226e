"""Server: the pages of a site for a folder of runs, renewed while runs come, and runs in progress as they go.

It only reads: journals, logs and verdicts that any process wrote. It listens on this machine unless asked otherwise, and then wants a token;
the Host of every request must be its own, or a page elsewhere could read it through a name that points here (DNS rebinding,
jupyter/notebook PR 3714). A path is made of plain names; nothing outside of the site and of a run's known files is opened, and no link.
"""

from __future__ import annotations

import hmac
import logging
import mimetypes
import os
import re
import secrets
import stat
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

import orjson

from schemaquake.harness.errors import PlanError
from schemaquake.harness.run_process import still_running
from schemaquake.harness.wait import pause_for
from schemaquake.results.findings.curation import Curation
from schemaquake.results.site.building import NoRuns, make_site_folder, publish, refuse_other_folders
from schemaquake.results.site.following import RunFollower
from schemaquake.results.site.records import file_name
from schemaquake.results.site.rendering import POLICY, render, script, served_script, styles
from schemaquake.results.store.run_folders import find_runs

__all__ = ["SiteServer", "open_server"]

log = logging.getLogger(__name__)

_SEGMENT: Final = re.compile(r"[A-Za-z0-9_+-][A-Za-z0-9._+-]*")
_RUN_FILES: Final = re.compile(
    r"report\.(?:html|md)|(?:verdict|summary|plan|outcome)\.json|(?:ledger|harness)\.jsonl|(?:history|observations)\.parquet"
    r"|nodes/[A-Za-z0-9_-]{1,64}/system(?:-\d{1,6})?\.log"
)
_COOKIE: Final = "schemaquake"
_EVENTS_EVERY_S: Final = 0.5
_HEARTBEAT_S: Final = 15.0
_RENEW_EVERY_S: Final = 5.0
_BLOCK: Final = 1 << 18
_SANDBOX: Final = "sandbox; default-src 'none'; style-src 'unsafe-inline'"


@dataclass
class SiteServer:
    """A server that was bound, and the site that it shows."""

    runs: Path
    site: Path
    curation: Curation
    token: str | None
    """Secret that requests need; None: only this machine can ask."""
    http: _Http = field(init=False)
    ended: threading.Event = field(default_factory=threading.Event)
    renewing: threading.Lock = field(default_factory=threading.Lock)
    published: Mapping[str, Path] = field(default_factory=dict)
    """The folders of the runs that the pages show, by the name of each page. A folder may have been renamed since its run."""

    @property
    def address(self) -> str:
        """The address to open."""
        host, port = self.http.server_address[:2]
        name = f"[{host!s}]" if ":" in str(host) else str(host)
        return f"http://{name}:{port}/" + (f"?token={self.token}" if self.token else "")

    def run(self) -> None:
        """Answer until `close`, and keep the site renewed."""
        renewing = threading.Thread(target=self._keep_renewed, daemon=True)
        renewing.start()
        try:
            self.http.serve_forever(poll_interval=0.2)
        finally:
            self.ended.set()
            self.http.server_close()

    def close(self) -> None:
        """End `run`."""
        self.ended.set()
        self.http.shutdown()

    def renew(self) -> None:
        """Make the pages of new runs. A folder without runs has no pages yet."""
        with self.renewing:
            try:
                self.published = publish([self.runs], self.site, curation=self.curation).folders
            except NoRuns:
                log.debug("no site yet")

    def in_progress(self) -> list[Path]:
        """List the folders of runs that are going on."""
        return [folder for folder in find_runs([self.runs]) if still_running(folder) is not None]

    def run_named(self, page: str) -> Path | None:
        """Return the folder of the run whose page has that name."""
        folder = self.published.get(page)
        if folder is not None and folder.is_dir() and not folder.is_symlink():
            return folder
        return next((folder for folder in find_runs([self.runs]) if file_name(folder.name) == page), None)

    def _keep_renewed(self) -> None:
        said = ""
        while not self.ended.is_set():
            try:
                self.renew()
                said = ""
            except Exception as error:  # the pages that are there are still served
                reason = str(error) or type(error).__name__
                if reason != said:
                    log.warning("the site could not be renewed", extra={"reason": reason}, exc_info=True)
                said = reason
            self.ended.wait(_RENEW_EVERY_S)


def open_server(runs: Path, site: Path, *, curation: Curation, host: str = "127.0.0.1", port: int = 0) -> SiteServer:
    """Bind a server for a folder of runs. Beyond this machine it has a token. Raises PlanError if it cannot listen there, or make the site's folder."""
    if not runs.is_dir():
        raise PlanError(f"{runs} is not a folder of runs")
    try:
        is_here = ip_address(host).is_loopback
    except ValueError:
        raise PlanError(f'--host "{host}": write the IP address of an interface, such as 127.0.0.1') from None
    refuse_other_folders(site)
    server = SiteServer(runs=runs, site=site, curation=curation, token=None if is_here else secrets.token_urlsafe(24))
    try:
        server.http = _Http((host, port), _Handler)
        server.http.site = server
    except OSError as error:
        raise PlanError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    try:
        make_site_folder(site)
    except PlanError:
        server.http.server_close()
        raise
    return server


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    site: SiteServer


class _Handler(BaseHTTPRequestHandler):
    """Answers of one connection."""

    server_version = "schemaquake"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    timeout = 60

    @property
    def _site(self) -> SiteServer:
        assert isinstance(self.server, _Http)
        return self.server.site

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it
        log.debug("request", extra={"line": format % args})

    def _answer(self) -> None:
        try:
            refused = _refusal(self._site, self.headers.get("Host", ""), self.headers.get("Cookie", ""), self.path)
            if refused is not None:
                self._send(refused, refused.phrase.encode(), "text/plain; charset=utf-8")
            elif "token=" in self.path and self._site.token:
                self._send(
                    HTTPStatus.SEE_OTHER, b"", "text/plain", Location="/", **{"Set-Cookie": _cookie(self._site.token)}
                )
            else:
                self._route()
        except (BrokenPipeError, ConnectionResetError, TimeoutError):
            self.close_connection = True

    def _route(self) -> None:
        segments = _segments(self.path)
        if segments is None:
            self._send(HTTPStatus.NOT_FOUND, b"Not Found", "text/plain; charset=utf-8")
        elif segments[0] == "live" and len(segments) == 3 and segments[2] == "events":
            self._events(segments[1])
        elif segments == ["live.html"] or (segments[0] == "live" and len(segments) == 2):
            page = _live_page(self._site, segments)
            self._page(page)
        elif segments[0] == "files" and len(segments) > 2:
            self._file(_run_file(self._site, segments[1], "/".join(segments[2:])), sandboxed=True)
        elif segments == ["assets", "served.js"]:
            self._send(HTTPStatus.OK, served_script(), "text/javascript; charset=utf-8")
        elif segments[0] == "assets" and not (self._site.site / "index.html").exists():
            self._send(HTTPStatus.OK, *_asset(segments))
        elif segments == ["index.html"] and not (self._site.site / "index.html").exists():
            self._page(render("live_runs.html.j2", depth=0, here="live", runs=_named(self._site.in_progress())))
        else:
            self._file(_open_below(self._site.site, segments), sandboxed=False)

    def _page(self, page: str | None) -> None:
        if page is None:
            self._send(HTTPStatus.NOT_FOUND, b"Not Found", "text/plain; charset=utf-8")
        else:
            self._send(HTTPStatus.OK, page.encode(), "text/html; charset=utf-8")

    def _file(self, opened: tuple[int, str] | None, *, sandboxed: bool) -> None:
        """Send an opened file and close it."""
        if opened is None:
            self._send(HTTPStatus.NOT_FOUND, b"Not Found", "text/plain; charset=utf-8")
            return
        descriptor, name = opened
        with os.fdopen(descriptor, "rb") as file:
            size = os.fstat(descriptor).st_size
            self._head(HTTPStatus.OK, size, _kind(name), sandboxed=sandboxed)
            while self.command == "GET" and size > 0 and (block := file.read(min(size, _BLOCK))):
                self.wfile.write(block)
                size -= len(block)

    def _events(self, page: str) -> None:
        """Send the state of a run as it changes, until it ends. A run that is over has none: browsers would ask for ever."""
        folder = self._site.run_named(page)
        if folder is None:
            self._send(HTTPStatus.NOT_FOUND, b"Not Found", "text/plain; charset=utf-8")
            return
        if self.headers.get("Last-Event-ID") == "end":
            self._send(HTTPStatus.NO_CONTENT, b"", "text/plain")
            return
        self.close_connection = True
        self._head(HTTPStatus.OK, None, "text/event-stream; charset=utf-8", sandboxed=False)
        if self.command == "GET":
            _stream(RunFollower(folder).poll, self.wfile.write, self._site.ended)

    def _send(self, status: HTTPStatus, body: bytes, kind: str, **headers: str) -> None:
        self._head(status, len(body), kind, sandboxed=False, **headers)
        if self.command == "GET":
            self.wfile.write(body)

    def _head(self, status: HTTPStatus, size: int | None, kind: str, *, sandboxed: bool, **headers: str) -> None:
        self.send_response(status)
        if status != HTTPStatus.NO_CONTENT:
            self.send_header("Content-Type", kind)
            if size is not None:
                self.send_header("Content-Length", str(size))
        if size is None:
            self.send_header("Connection", "close")
        policy = _SANDBOX if sandboxed else POLICY
        fixed = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
        for name, value in {**fixed, "Content-Security-Policy": policy, **headers}.items():
            self.send_header(name, value)
        self.end_headers()


def _stream(poll: Callable[[], dict[str, Any]], write: Callable[[bytes], object], ended: threading.Event) -> None:
    """Write a run's states as events until it has ended."""
    last, written = b"", time.monotonic()
    while not ended.is_set():
        state = poll()
        data = orjson.dumps(state)
        if data != last:
            write(b"data: " + data + b"\n\n")
            last, written = data, time.monotonic()
        elif time.monotonic() - written > _HEARTBEAT_S:
            write(b": still here\n\n")
            written = time.monotonic()
        if not state["running"]:
            write(b"id: end\nevent: end\ndata: {}\n\n")
            return
        pause_for(_EVENTS_EVERY_S)


# ── who may ask, and for what ────────────────────────────────────────────────────────────────────────────────────────


def _refusal(site: SiteServer, host: str, cookies: str, path: str) -> HTTPStatus | None:
    """Return the status for a request that is not answered; None for one that is."""
    bound, port = site.http.server_address[:2]
    name, _, asked_port = host.rpartition(":") if re.search(r":\d+$", host) else (host, "", "80")
    if asked_port != str(port) or not _is_own_name(
        name.strip("[]").lower(), str(bound), is_open=site.token is not None
    ):
        return HTTPStatus.MISDIRECTED_REQUEST
    if site.token is None:
        return None
    given = parse_qs(urlsplit(path).query).get("token", [_cookie_value(cookies)])[0]
    return None if hmac.compare_digest(given.encode(), site.token.encode()) else HTTPStatus.FORBIDDEN


def _is_own_name(name: str, bound: str, *, is_open: bool) -> bool:
    """Return True for a name by which this server may be asked: its address; beyond this machine any address, but no name."""
    if name == bound or (name == "localhost" and not is_open):
        return True
    try:
        return is_open and bool(ip_address(name))
    except ValueError:
        return False


def _cookie(token: str) -> str:
    return f"{_COOKIE}={token}; Path=/; HttpOnly; SameSite=Strict"


def _cookie_value(cookies: str) -> str:
    try:
        found = SimpleCookie(cookies).get(_COOKIE)
    except CookieError:
        return ""
    return found.value if found is not None else ""


def _segments(path: str) -> list[str] | None:
    """Divide the path of a request into plain names; None if it has any other. The root is the index."""
    plain = urlsplit(path).path
    if plain in {"", "/"}:
        return ["index.html"]
    segments = [unquote(part) for part in plain.lstrip("/").split("/")]
    return segments if all(_SEGMENT.fullmatch(part) for part in segments) else None


def _open_below(root: Path, segments: list[str]) -> tuple[int, str] | None:
    """Open a plain file below a folder, following no link on the way. Returns its descriptor and its name."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    folder = None
    try:
        folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for segment in segments[:-1]:
            below = os.open(segment, flags | os.O_DIRECTORY, dir_fd=folder)
            os.close(folder)
            folder = below
        descriptor = os.open(segments[-1], flags, dir_fd=folder)
    except (OSError, ValueError):
        return None
    finally:
        if folder is not None:
            os.close(folder)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor, segments[-1]
    os.close(descriptor)
    return None


def _run_file(site: SiteServer, page: str, name: str) -> tuple[int, str] | None:
    folder = site.run_named(page)
    return _open_below(folder, name.split("/")) if folder is not None and _RUN_FILES.fullmatch(name) else None


def _live_page(site: SiteServer, segments: list[str]) -> str | None:
    if segments == ["live.html"]:
        return render("live_runs.html.j2", depth=0, here="live", runs=_named(site.in_progress()))
    page = segments[1].removesuffix(".html")
    folder = site.run_named(page)
    return None if folder is None else render("live.html.j2", depth=1, here="live", run=folder.name, page=page)


def _named(folders: list[Path]) -> list[tuple[str, str]]:
    return [(folder.name, file_name(folder.name)) for folder in folders]


def _asset(segments: list[str]) -> tuple[bytes, str]:
    return (script(), "text/javascript") if segments[-1].endswith(".js") else (styles(), "text/css")


def _kind(name: str) -> str:
    if name.endswith((".html", ".css", ".js", ".json", ".md", ".xml")):
        kind = {"js": "text/javascript", "md": "text/plain", "xml": "application/atom+xml"}.get(name.rpartition(".")[2])
        return f"{kind or mimetypes.guess_type(name)[0] or 'text/plain'}; charset=utf-8"
    if name.endswith((".log", ".jsonl")):
        return "text/plain; charset=utf-8"
    return mimetypes.guess_type(name)[0] or "application/octet-stream"
