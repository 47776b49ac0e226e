"""Error injection: the server's own code fails, waits or ends at a named place, on request.

ScyllaDB's builds for tests have some two hundred such places; its releases have the interface and none of the places. They
are switched over REST, by curl on the node itself: port 10000 of its loopback address, unless it is configured otherwise.
Parameters: `{"injection", "how", "api"}`. Source: api/api-doc/error_injection.json of ScyllaDB.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final
from urllib.parse import quote

from schemaquake.harness.errors import ClusterError, HealError, PlanError
from schemaquake.harness.model import options
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.options import option
from schemaquake.harness.model.protocols import Cluster, Context, Executed, Fault, Node, Undo
from schemaquake.harness.model.traits import cluster_traits
from schemaquake.nemeses.process.serving import SERVING_LIMIT_S, bring_back
from schemaquake.nemeses.schedule.commands import describe_failure, run, runs_commands
from schemaquake.nemeses.schedule.every_node import on_every
from schemaquake.nemeses.schedule.options import TargetOptions, configured
from schemaquake.nemeses.schedule.targets import named
from schemaquake.nemeses.schedule.timetable import targeted

__all__ = ["ErrorInjection"]

_NAME: Final = re.compile(r"[A-Za-z_][\w:.-]*")
_API: Final = re.compile(r"[\w.-]+:\d+|\[[0-9A-Fa-f:.]+\]:\d+")
_AUTO: Final = "auto"
_PORT: Final = 10000
_PROBE: Final = "schemaquake_probe"
_SECONDS_TO_ANSWER: Final = 10
_NO_CURL: Final = 127
_GONE: Final = (
    'name=$1; shift; shown=$("$@"); code=$?; case $code in 7 | 127) exit 0 ;; 0) ;; *) exit 1 ;; esac; '
    'case $shown in *"\\"$name\\""*) exit 1 ;; esac'
)
_REFUSED: Final = 7  # curl's exit code: no process listens, and the injection ended with the server's process


@dataclass(frozen=True, kw_only=True)
class InjectionOptions(TargetOptions):
    """Options of error injection that are written without its name."""

    injection: str | None = option(None, "the name of a place in the server's code", parse=str)


@dataclass(frozen=True, kw_only=True)
class ErrorInjection:
    """`--nemesis error-injection -O injection=NAME`; `-O error-injection.how=once` for a place that fails a single time."""

    name = "error-injection"
    allowed_by = "errors"
    disturbs = "injections"
    checked_as = "error injection"
    checks_server = True
    options = InjectionOptions()

    targets: tuple[str, ...] = option(("one",), "the targets, with commas; one is drawn for each fault")
    how: str = option("lasting", "`lasting`, or `once` for a place that fails a single time")
    api: str = option(
        "auto",
        "host and port of the REST interface, as the node sees it; `auto`: 10000, on loopback or its own address",
    )

    def missing(self, cluster: Cluster) -> str | None:
        """Try an unused name on every node that already runs; a model has no place in which an error could be injected."""
        if not cluster_traits(cluster).runs_server:
            return "the nodes of this cluster are models, which have no server's code to inject errors into"
        for node in cluster.nodes:
            if runs_commands(node) and node.state() == "running" and (reason := _refusal(node, self.api)) is not None:
                return f"node {node.name} cannot inject errors: {reason}"
        return None

    def schedule(self, context: Context, *, random: Random) -> Sequence[Fault]:
        """Plan failures of 5 to 15 s with quiet between them. Raises PlanError without the name of a place."""
        configuration = configured(self, context)
        configuration.check()
        injection = options.configured(InjectionOptions(), context.options).injection
        if injection is None:
            raise PlanError("error-injection needs the name of a place: -O injection=NAME, as the server's code has it")
        if _NAME.fullmatch(injection) is None:
            raise PlanError(f'-O injection: "{injection}" is no name of a place in code')
        return targeted(
            self.name,
            context,
            random,
            targets=configuration.targets,
            injection=injection,
            how=configuration.how,
            api=configuration.api,
        )

    def check(self) -> None:
        """Raise PlanError, naming the parameter, for an unknown value."""
        if self.how not in {"lasting", "once"}:
            raise PlanError(f'error-injection.how is "lasting" or "once", not "{self.how}"')
        if self.api != _AUTO and _API.fullmatch(self.api) is None:
            raise PlanError(f'error-injection.api is "auto" or host:port, not "{self.api}"')

    def inject(self, cluster: Cluster, fault: Fault) -> JSON:
        """Switch the place on, and return the injections that each node lists. Raises ClusterError if one does not list it."""
        place = _Place.of(fault)

        def switch_on(node: Node) -> JSON:
            done = _run_at_api(node, place.api, place.switch_on)
            if done.exit_code != 0:
                raise ClusterError(
                    f"node {node.name} did not take the injection {place.name}: {describe_failure(done)}"
                )
            enabled = _enabled(node, place.api)
            # A single failure may already have happened.
            if place.name not in enabled and not place.once:
                raise ClusterError(f"node {node.name} took the injection {place.name} and does not list it: {enabled}")
            return {"enabled": enabled}

        return {"observed": True, "nodes": on_every(named(cluster, fault.nodes), switch_on, task="injecting errors")}

    def undo(self, cluster: Cluster, fault: Fault) -> Mapping[str, Sequence[Undo]]:
        """Return commands that release code waiting at the place, switch it off, and start a server that it ended."""
        place = _Place.of(fault)
        return {
            node.name: [
                *(
                    Undo(argv=verb(api), whole=place.gone(api))
                    for api in _apis(node, place.api)
                    for verb in (place.release, place.switch_off)
                ),
                Undo(verb="start"),
            ]
            for node in named(cluster, fault.nodes)
        }

    def heal(self, cluster: Cluster, fault: Fault) -> JSON:
        """Switch the place off, and start a server that it ended (the injection is gone with it). Raises HealError if it is still on."""
        place = _Place.of(fault)

        def switch_off(node: Node) -> JSON:
            if node.state() == "stopped":
                bring_back([node], deadline_s=SERVING_LIMIT_S, task="starting a server that an injection ended")
                return {"started": True, "enabled": _enabled(node, place.api)}
            _run_at_api(node, place.api, place.release)
            done = _run_at_api(node, place.api, place.switch_off)
            if done.exit_code not in {0, _REFUSED}:
                raise HealError(
                    f"node {node.name} did not take the injection {place.name} back: {describe_failure(done)}"
                )
            enabled = [] if done.exit_code == _REFUSED else _enabled(node, place.api)
            if place.name in enabled:
                raise HealError(f"node {node.name} still has the injection {place.name}")
            return {"started": False, "enabled": enabled}

        nodes = named(cluster, fault.nodes)
        return {
            "observed": True,
            "nodes": on_every(nodes, switch_off, task="switching injections off", error=HealError),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A named place in the server's code, and the commands that switch it."""

    name: str
    api: str
    once: bool = False

    @classmethod
    def of(cls, fault: Fault) -> _Place:
        parameters = fault.parameters
        return cls(name=str(parameters["injection"]), api=str(parameters["api"]), once=parameters["how"] == "once")

    def switch_on(self, api: str) -> tuple[str, ...]:
        return _curl("POST", f"{self._url(api)}?one_shot={self.once}")  # the interface spells them True and False

    def switch_off(self, api: str) -> tuple[str, ...]:
        return _curl("DELETE", self._url(api))

    def release(self, api: str) -> tuple[str, ...]:
        return _curl("POST", f"{self._url(api)}/message")

    def gone(self, api: str) -> tuple[str, ...]:
        """Return the command that exits with 0 if the place is off, or no server listens there, and its injections with it."""
        return ("sh", "-c", _GONE, "sh", self.name, *_curl("GET", _list_url(api)))

    def _url(self, api: str) -> str:
        return f"{_list_url(api)}/{quote(self.name, safe='')}"


def _refusal(node: Node, api: str) -> str | None:
    """Return why the node's server has no error injection, or cannot be asked; None if it has."""
    probe = _Place(name=_PROBE, api=api)
    done = _run_at_api(node, api, probe.switch_on)
    where = " or ".join(_apis(node, api))
    if done.exit_code == _NO_CURL:
        return "there is no curl on it. Install curl there"
    if done.exit_code == _REFUSED:
        return f"no REST interface answers at {where}. Cassandra has none; -O error-injection.api=HOST:PORT says where another is"
    if done.exit_code != 0:
        return f"its REST interface at {where} refuses: {describe_failure(done)}"
    enabled = _enabled(node, api)
    _run_at_api(node, api, probe.switch_off)
    if _PROBE in enabled:
        return None
    return "this build of the server has no error injection (releases have none). Use a debug or dev build"


def _enabled(node: Node, api: str) -> Sequence[str]:
    """Return the injections that the node lists as on. Raises ClusterError."""
    done = _run_at_api(node, api, lambda address: _curl("GET", _list_url(address)))
    if done.exit_code != 0:
        raise ClusterError(f"node {node.name} does not list its injections: {describe_failure(done)}")
    return _names(node, done)


def _run_at_api(node: Node, api: str, command: Callable[[str], Sequence[str]]) -> Executed:
    """Run the command at the first address that accepts connections."""
    done = Executed(_REFUSED, "", "")
    for address in _apis(node, api):
        done = run(node, *command(address))
        if done.exit_code != _REFUSED:
            break
    return done


def _apis(node: Node, api: str) -> Sequence[str]:
    if api != _AUTO:
        return [api]
    address = f"[{node.address}]" if ":" in node.address else node.address
    return [f"127.0.0.1:{_PORT}", f"{address}:{_PORT}"]


def _names(node: Node, done: Executed) -> Sequence[str]:
    try:
        entries = json.loads(done.stdout)
    except json.JSONDecodeError as error:
        raise ClusterError(f"node {node.name} lists its injections in no JSON: {done.stdout[:80]!r}") from error
    # Releases of 2025 list more of each than its name.
    return sorted(entry["name"] if isinstance(entry, dict) else str(entry) for entry in entries)


def _list_url(api: str) -> str:
    return f"http://{api}/v2/error_injection/injection"


def _curl(method: str, url: str) -> tuple[str, ...]:
    return ("curl", "-sS", "--fail", "--globoff", "--max-time", str(_SECONDS_TO_ANSWER), "--request", method, url)
