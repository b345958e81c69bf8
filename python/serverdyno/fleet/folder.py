"""The folder of a fleet, created by `dyno fleet init`: its members, its scheduler's address and its certificates.

The folder has `fleet.toml`, `hosts.toml` if nodes were started over SSH, `authority.pem`, `authority.key`,
`controller/`, `scheduler/` and `nodes/<name>/`; each of these directories has a certificate. A node needs only its
own folder under `nodes/`.
"""

from __future__ import annotations

import ipaddress
import re
import tomllib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import tomli_w

from serverdyno.errors import UserError
from serverdyno.fleet.address import host_and_port
from serverdyno.fleet.certificates import AUTHORITY_KEY, Authority
from serverdyno.fleet.private_file import make_private, write_private

FLEET, NODE = "fleet.toml", "node.toml"
HOSTS = "hosts.toml"
"""The hosts on which nodes were started over SSH, if any."""
CONTROLLER, SCHEDULER, NODES = "controller", "scheduler", "nodes"
RUNNING, SCHEDULER_LOG = "scheduler.pid", "scheduler.log"
MOST_DAYS = 3650
NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,62}")
HINT = "For example: dyno fleet init lab --at 10.0.0.1 --nodes a,b,c"


@dataclass(frozen=True, slots=True)
class FleetFolder:
    """A fleet on disk. `at` is the host and port of its scheduler."""

    path: Path
    name: str
    at: str
    nodes: tuple[str, ...]

    @classmethod
    def open(cls, path: Path) -> FleetFolder:
        """Return the fleet in a folder. Raises UserError if the folder is not a fleet's."""
        try:
            found = tomllib.loads((path / FLEET).read_text(encoding="utf-8"))
            return cls(path, str(found["name"]), str(found["at"]), tuple(map(str, found["nodes"])))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path} is not the folder of a fleet: {error}", hint=HINT) from error

    @property
    def address(self) -> str:
        """The scheduler's address as Dask writes it."""
        return f"tls://{self.at}"

    def node(self, name: str) -> Path:
        return self.path / NODES / name


@dataclass(frozen=True, slots=True)
class NodeFolder:
    """A node's part of its fleet's folder."""

    path: Path
    name: str
    at: str

    @classmethod
    def open(cls, path: Path) -> NodeFolder:
        """Return the node in a folder. Raises UserError if it is not a node's folder."""
        try:
            found = tomllib.loads((path / NODE).read_text(encoding="utf-8"))
            return cls(path, str(found["name"]), str(found["at"]))
        except (OSError, ValueError, KeyError) as error:
            raise UserError(
                f"{path} is not the folder of a fleet node: {error}",
                hint=f"dyno fleet init creates a folder for each node, {NODES}/NAME; copy that folder to the node.",
            ) from error

    @property
    def address(self) -> str:
        """The scheduler's address as Dask writes it."""
        return f"tls://{self.at}"


def create(path: Path, at: str, nodes: list[str], days: float, *, renew: bool = False) -> FleetFolder:
    """Create a fleet's folder, or with `renew` new certificates for an existing fleet. Raises UserError."""
    problems = [
        f"{name!r} is not a valid node name: use lower-case letters, digits, dots and hyphens"
        for name in nodes
        if not NAME.fullmatch(name)
    ]
    if len(set(nodes)) < len(nodes):
        problems.append("two nodes have the same name")
    if roles := sorted({CONTROLLER, SCHEDULER}.intersection(nodes)):
        # The name in a certificate decides what its holder may do.
        problems.append(f"{' and '.join(roles)}: this name is reserved, so choose another one for the node")
    if not nodes:
        problems.append("a fleet needs at least one node")
    if not 0 < days <= MOST_DAYS:
        problems.append(f"certificates must be valid for more than 0 and at most {MOST_DAYS} days")
    try:
        at = _with_port(at)
    except ValueError as error:
        problems.append(str(error))
    if (path / AUTHORITY_KEY).exists() and not renew:
        problems.append(f"{path} already contains a fleet; --renew creates new certificates for it")
    if problems:
        raise UserError("\n".join(problems), hint=HINT)
    until = datetime.now(UTC) + timedelta(days=days)
    make_private(path)
    authority = Authority.new(path.name, until)
    authority.write(path)
    for role in (CONTROLLER, SCHEDULER):
        authority.issue(role, path / role, until)
    for name in nodes:
        folder = path / NODES / name
        authority.issue(name, folder, until)
        write_private(folder / NODE, tomli_w.dumps({"name": name, "at": at}).encode())
    told = {"name": path.name, "at": at, "nodes": nodes, "certificates_end": until}
    write_private(path / FLEET, tomli_w.dumps(told).encode())
    return FleetFolder.open(path)


def _with_port(at: str) -> str:
    """Return host and port. The host is an address, or a name that nodes can resolve. Raises ValueError."""
    host, port = host_and_port(at)
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return f"{host}:{port}"
    if address.is_unspecified:
        raise ValueError(
            f"{at!r}: nodes can't reach {host}; give an address of this machine in their network"
        )
    return f"[{host}]:{port}" if address.version == 6 else f"{host}:{port}"
