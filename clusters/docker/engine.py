"""Docker engine: the containers, volumes and networks of one run, made, found and removed by label.

Every object has the label `io.schemaquake.run` with the run's identity from the instant it exists, so that all objects of
a harness that died at any moment can be found, and no others. The SDK's errors for an engine that does not run, or that
may not be used, become messages that say what to do.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import docker
import requests
from docker.errors import APIError, BuildError, DockerException, ImageNotFound, NotFound
from docker.types import EndpointConfig, IPAMConfig, IPAMPool

from schemaquake.harness.errors import ClusterError, EnvironmentLacks

__all__ = ["NODE_LABEL", "RUN_LABEL", "Container", "DockerEngine", "Limits"]

log = logging.getLogger(__name__)

RUN_LABEL: Final = "io.schemaquake.run"
NODE_LABEL: Final = "io.schemaquake.node"
FOLDER_LABEL: Final = "io.schemaquake.folder"

_UNIX: Final = "unix://"
_USUAL_HOST: Final = "unix:///var/run/docker.sock"
_REQUEST_S: Final = 120
_CONNECTIONS: Final = 64
"""The size of the connection pool: one for each node that may be asked at once, and some more."""
_SUBNETS: Final = ipaddress.IPv4Network("10.79.0.0/16")
"""The range from which each run takes a /24, the first that is unused."""
_IDLE: Final = ("sleep", "infinity")
_CAPABILITIES: Final = ("NET_ADMIN",)
_FIRST_HOST: Final = 11
"""The first node's number in its network, whose first address is the engine's."""
_OVERLAPS: Final = "overlap"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one container: memory in MB, and cores (None: all of the machine)."""

    memory_mb: int
    cpus: float | None = None


@dataclass(frozen=True, slots=True)
class Container:
    """One container that idles: its node's name, its address in the run's network, its id and name."""

    node: str
    address: str
    id: str
    name: str


class DockerEngine:
    """One docker engine, used by a run or by the healing of a run."""

    def __init__(self, client: Any) -> None:
        """`client` is a `docker.DockerClient`; `connect` makes one."""
        self.client = client

    @classmethod
    def connect(cls, host: str | None = None) -> DockerEngine:
        """Connect to the engine at `host`, else to the one that DOCKER_HOST names, else to this machine's.

        Raises EnvironmentLacks, saying what to do.
        """
        chosen = host or os.environ.get("DOCKER_HOST", _USUAL_HOST)
        _require_socket(chosen)
        try:
            client = (
                docker.from_env(timeout=_REQUEST_S, max_pool_size=_CONNECTIONS)
                if host is None
                else docker.DockerClient(host, timeout=_REQUEST_S, max_pool_size=_CONNECTIONS)
            )
        except DockerException as error:
            raise EnvironmentLacks(f"the docker engine at {chosen} cannot be used: {error}") from error
        return cls(client)

    def close(self) -> None:
        """Close its connections."""
        self.client.close()

    def described(self) -> Mapping[str, str]:
        """Return facts about the engine for the report."""
        with _in_words("the engine's version"):
            version = self.client.version()
        return {
            "docker engine": f"{version['Version']} (API {version['ApiVersion']}, {version['Os']}/{version['Arch']})"
        }

    # ── images ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def has_image(self, name: str) -> bool:
        """Return True if the engine has that image."""
        with _in_words(f"looking for the image {name}"):
            try:
                self.client.images.get(name)
            except ImageNotFound:
                return False
        return True

    def image(self, name: str) -> Mapping[str, Any]:
        """Inspect an image (`docker image inspect`), which the engine pulls if it lacks it.

        Raises EnvironmentLacks if it cannot be had, with the engine's own words.
        """
        try:
            if not self.has_image(name):
                log.info("pulling an image", extra={"image": name})
                self.client.images.pull(name)
            return dict(self.client.images.get(name).attrs)
        except (APIError, requests.RequestException) as error:
            raise EnvironmentLacks(
                f"the image {name} is not here and could not be pulled: {_words(error)}. Try: docker pull {name}"
            ) from error

    def import_image(self, archive: IO[bytes], name: str, *, changes: Sequence[str] = ()) -> None:
        """Import a root file system as an image. Raises ClusterError."""
        repository, _, tag = name.rpartition(":")
        with _in_words(f"importing {name}"):
            answer = self.client.api.import_image_from_data(
                archive, repository=repository, tag=tag, changes=list(changes)
            )
        if '"error"' in answer:
            raise ClusterError(f"importing {name}: the docker engine answered: {answer.strip()}")

    def build_image(
        self, context: IO[bytes], name: str, *, arguments: Mapping[str, str], labels: Mapping[str, str]
    ) -> None:
        """Build from an archive with a Dockerfile, without a registry. Raises ClusterError with the end of the engine's output."""
        with _in_words(f"building {name}"):
            try:
                self.client.images.build(
                    fileobj=context,
                    custom_context=True,
                    tag=name,
                    buildargs=dict(arguments),
                    labels=dict(labels),
                    pull=False,
                    network_mode="none",
                    rm=True,
                    forcerm=True,
                )
            except BuildError as error:
                raise ClusterError(f"building {name}: the docker engine says: {error.msg}") from error

    # ── one run ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def create_network(self, run: str, *, taken: Sequence[ipaddress.IPv4Network] | None = None) -> str:
        """Create a bridge for the run on a subnet that neither the engine nor this machine uses; return its name.

        `taken` are the networks that this machine has a route to. Raises ClusterError.
        """
        name = f"schemaquake-{run}"
        avoided = _routes() if taken is None else taken
        for subnet in _SUBNETS.subnets(new_prefix=24):
            if any(subnet.overlaps(other) for other in avoided):
                continue
            pool = IPAMPool(subnet=str(subnet))
            try:
                self.client.networks.create(
                    name, driver="bridge", ipam=IPAMConfig(pool_configs=[pool]), labels={RUN_LABEL: run}
                )
            except APIError as error:
                if _OVERLAPS in _words(error).lower():
                    continue  # another run took it between our looking and our asking
                raise ClusterError(f"the network {name} could not be created: {_words(error)}") from error
            except requests.RequestException as error:
                raise ClusterError(f"the network {name} could not be created: {_words(error)}") from error
            return name
        raise ClusterError(
            f"every /24 of {_SUBNETS} is in use here: remove networks of earlier runs (docker network ls)"
        )

    def create_container(
        self,
        run: str,
        node: str,
        *,
        number: int,
        image: str,
        network: str,
        limits: Limits,
        folder: str,
        volumes: Sequence[str] = (),
    ) -> Container:
        """Create node `number` (from 1) as a container that idles: an init and a sleep. Its server is started later.

        So its network, and every rule in it, outlives a server that is killed. In a network with a subnet that was
        given when it was made, the address is fixed. `folder` is the run's, kept as a label;
        `volumes` are the paths that the image keeps its data at. Raises ClusterError.
        """
        name = f"schemaquake-{run}-{node}"
        labels = {RUN_LABEL: run, NODE_LABEL: node, FOLDER_LABEL: folder}
        with _in_words(f"the container {name}"):
            address = self._address(network, number)
            # Named ones: what an image declares would else get a volume without a label.
            mounts = {
                self.client.volumes.create(f"{name}-{count}", labels=labels).name: {"bind": path, "mode": "rw"}
                for count, path in enumerate(volumes)
            }
            container = self.client.containers.create(
                image,
                name=name,
                hostname=node,
                entrypoint=list(_IDLE),
                command=[],
                init=True,
                user="0",
                cap_add=list(_CAPABILITIES),
                network=network,
                networking_config={network: EndpointConfig(self.client.api.api_version, ipv4_address=address)},
                mem_limit=f"{limits.memory_mb}m",
                memswap_limit=f"{limits.memory_mb}m",
                nano_cpus=None if limits.cpus is None else round(limits.cpus * 1e9),
                labels=labels,
                volumes=mounts,
                restart_policy={"Name": "no"},
            )
            container.start()
            container.reload()
        return _container(container, network)

    def containers(self, run: str) -> Sequence[Container]:
        """List the run's containers, running or not, in order of their nodes."""
        with _in_words(f"the containers of {run}"):
            found = self.client.containers.list(all=True, filters={"label": f"{RUN_LABEL}={run}"})
        return sorted((_container(each, None) for each in found), key=lambda each: (len(each.node), each.node))

    def unpack(self, container: str, archive: bytes) -> None:
        """Unpack an archive at the root of a container. Raises ClusterError."""
        with _in_words("putting files into a container"):
            self.client.api.put_archive(container, "/", archive)

    def copy_out(self, container: str, path: str, target: Path) -> None:
        """Write an archive of a container's folder to `target`. Raises ClusterError; NotFound if the folder does not exist."""
        with _in_words(f"copying {path} out of a container"):
            chunks, _ = self.client.api.get_archive(container, path)
            with target.open("wb") as archive:
                archive.writelines(chunks)

    def halt(self, run: str) -> None:
        """Stop the run's containers and leave their files. Raises ClusterError."""
        with _in_words(f"ending the containers of {run}"):
            for each in self.client.containers.list(filters={"label": f"{RUN_LABEL}={run}"}):
                each.kill()

    def memory_mb(self) -> int:
        """Return the memory of the engine's machine in MB."""
        with _in_words("the engine's memory"):
            return int(self.client.info()["MemTotal"]) // 2**20

    def remove(self, run: str) -> Sequence[str]:
        """Remove every object with the run's label; idempotent. Returns a sentence for each.

        Everything is tried before anything is raised: an ExceptionGroup of ClusterErrors.
        """
        chosen = {"label": f"{RUN_LABEL}={run}"}
        done: list[str] = []
        errors: list[Exception] = []
        with _in_words(f"what bears the label {RUN_LABEL}={run}"):
            found = [
                *(
                    ("container", each, {"force": True, "v": True})
                    for each in self.client.containers.list(all=True, filters=chosen)
                ),
                *(("network", each, {}) for each in self.client.networks.list(filters=chosen)),
                *(("volume", each, {"force": True}) for each in self.client.volumes.list(filters=chosen)),
            ]
        for kind, thing, how in found:
            try:
                with _in_words(f"removing the {kind} {thing.name}"):
                    thing.remove(**how)
                done.append(f"{kind} {thing.name} was removed")
            except NotFound:
                log.debug("gone already", extra={"kind": kind, "what": thing.name})
            except ClusterError as error:
                errors.append(error)
        if errors:
            raise ExceptionGroup(f"not everything of {run} could be removed", errors)
        return done

    def leftovers(self) -> Mapping[str, str]:
        """Map the runs that have containers on this engine to their folders."""
        with _in_words("containers of earlier runs"):
            found = self.client.containers.list(all=True, filters={"label": RUN_LABEL})
        return {each.labels[RUN_LABEL]: each.labels.get(FOLDER_LABEL, "?") for each in found}

    def _address(self, network: str, number: int) -> str | None:
        """Give that node a fixed address if the network's subnet was given; else the engine chooses one."""
        configured = self.client.networks.get(network).attrs["IPAM"]["Config"] or []
        subnets = [ipaddress.ip_network(pool["Subnet"]) for pool in configured if "Subnet" in pool]
        ours = [each for each in subnets if isinstance(each, ipaddress.IPv4Network) and each.subnet_of(_SUBNETS)]
        return str(ours[0][_FIRST_HOST - 1 + number]) if ours else None


def _container(container: Any, network: str | None) -> Container:
    networks: Mapping[str, Any] = container.attrs["NetworkSettings"]["Networks"]
    chosen = networks.get(network, {}) if network is not None else next(iter(networks.values()), {})
    return Container(container.labels.get(NODE_LABEL, "?"), chosen.get("IPAddress", ""), container.id, container.name)


def _routes() -> list[ipaddress.IPv4Network]:
    """List the networks to which this machine has a route, without the default route."""
    found = []
    for line in Path("/proc/net/route").read_text(encoding="ascii").splitlines()[1:]:
        _, destination, _, _, _, _, _, mask, *_ = line.split()
        length = _little_endian(mask).bit_count()
        if length:
            found.append(ipaddress.IPv4Network((_little_endian(destination), length)))
    return found


def _little_endian(digits: str) -> int:
    return int.from_bytes(bytes.fromhex(digits), "little")


@contextmanager
def _in_words(what: str) -> Iterator[None]:
    """Turn the SDK's errors into a ClusterError that names the request; NotFound passes."""
    try:
        yield
    except NotFound:
        raise
    except (APIError, requests.RequestException) as error:
        raise ClusterError(f"{what}: the docker engine says: {_words(error)}") from error


def _words(error: Exception) -> str:
    """Return the engine's own message, else the connection's."""
    return str(getattr(error, "explanation", None) or error).strip().rstrip(".")


def _require_socket(host: str) -> None:
    """Check that a local engine's socket accepts connections; the SDK's own error would be wrapped several times."""
    if not host.startswith(_UNIX):
        return
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(host.removeprefix(_UNIX))
        except PermissionError as error:
            raise EnvironmentLacks(
                f"the docker engine at {host} may not be used by this user. Run as root, or be of its group: "
                "sudo usermod -aG docker $USER, then log in again"
            ) from error
        except OSError as error:
            raise EnvironmentLacks(
                f"there is no docker engine at {host} ({error.strerror or error}). Install and start one (Debian: apt-get "
                "install docker.io; systemctl start docker), or name another with DOCKER_HOST"
            ) from error
