"""A server on a node of the fleet: driver and keeper run on the node, and the controller requests figures.

`ServerPlace` is the node's side, `NodeServer` the controller's, and `served_by` yields the server for a block. A server
ends with its node, or if its controller is silent for too long. `node_team.py` implements teams on several nodes.
"""

from __future__ import annotations

import dataclasses
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from serverdyno.clean import quoted
from serverdyno.errors import DynoError, ServerError
from serverdyno.fleet.consent import TOKEN_BYTES
from serverdyno.fleet.contract import Node, ask_all
from serverdyno.plan.model import Configuration
from serverdyno.servers.base import Access, Description
from serverdyno.servers.running import running
from serverdyno.servers.web import Behind

if TYPE_CHECKING:
    from serverdyno.servers.base import RunningServer

NAMESPACE = re.compile(r"/proc/[1-9][0-9]*/ns/net")
ASKED = frozenset(
    {"check", "cpu_by_member_s", "cpu_s", "crashes", "requests_served", "rss_bytes", "syncs_served"}
)
"""Figures of a running server that the controller may request."""


class ServerPlace:
    """The servers that run on a node, by number."""

    def __init__(self) -> None:
        self._servers: dict[int, tuple[RunningServer, ExitStack]] = {}
        self._begun = 0

    def start(
        self,
        server: str,
        settings: Mapping[str, Any],
        cpus: Sequence[int],
        address: str,
        team: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Start a server on an address of this node and prove it. Return its number, access and description.

        `team` contains the `token` with which the server consents to load, and `backs`, the servers behind the front of
        a team.
        """
        backs = [Behind(host, port) for host, port in team["backs"]]
        with ExitStack() as stack:
            started = stack.enter_context(
                running(server, settings, cpus=cpus, address=address, token=team["token"], backs=backs)
            )
            access, description = started.access(), started.describe()
            self._begun += 1
            self._servers[self._begun] = (started, stack.pop_all())
        return {
            "number": self._begun,
            "access": dataclasses.asdict(access),
            "description": dataclasses.asdict(description),
        }

    def ask(self, number: int, what: str) -> Any:
        """Return one figure of a server."""
        if what not in ASKED:
            raise ValueError(f"unknown request to a server: {what!r}")
        if number not in self._servers:
            raise ServerError("the server no longer runs on this node")
        return getattr(self._servers[number][0], what)()

    def stop(self, number: int | None = None) -> None:
        """End a server if it is running; without a number, all servers."""
        with ExitStack() as stack:
            for each in [number] if number is not None else list(self._servers):
                if each in self._servers:
                    stack.callback(self._servers.pop(each)[1].close)


class NodeServer:
    """A server on a node, as seen by the controller; see `servers.base.RunningServer`."""

    def __init__(self, node: Node, told: Mapping[str, Any], machine: Mapping[str, Any], token: str) -> None:
        """Create the server.

        `told` is the result of `ServerPlace.start`, and `machine` contains the node's facts for the disclosure.

        `token` is the consent token of this run, which the server must show.
        """
        self.node, self.machine = node, machine
        self._number = told["number"]
        access = told["access"]
        _check_is_there(node, access, machine["address"])
        # JSON has no tuples.
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in access.items()
        }
        self._access = Access(**{**fields, "consent_token": token})
        described = Description(**told["description"])
        self._description = dataclasses.replace(
            described, notes=[f"Runs on {node.name} of the fleet.", *described.notes]
        )

    @property
    def places(self) -> list[tuple[Node, str, Mapping[str, Any]]]:
        """The node, its part of the server, and its facts for the disclosure."""
        return [(self.node, "the server", self.machine)]

    @property
    def is_here(self) -> bool:
        """Whether the server uses CPU time of this machine."""
        return self.node.on_this_machine

    @property
    def url(self) -> str:
        return self._access.url

    def access(self) -> Access:
        return self._access

    def describe(self) -> Description:
        """Return the description that the node disclosed."""
        return self._description

    def ask(self, target: object) -> None:
        """Do nothing, because the node has proven the server."""

    def check(self) -> None:
        """Raise ServerError if the server has ended, or DynoError if its node is lost."""
        try:
            self._asked("check")
        except DynoError as error:
            if self.node.lost:
                raise DynoError(f"{error}; its server has ended, too", hint=error.hint) from error
            raise

    def crashes(self) -> list[str]:
        return list(self._asked("crashes"))

    def cpu_s(self) -> float | None:
        found = self._asked("cpu_s")
        return None if found is None else float(found)

    def cpu_by_member_s(self) -> dict[str, float | None]:
        return dict(self._asked("cpu_by_member_s"))

    def rss_bytes(self) -> int | None:
        found = self._asked("rss_bytes")
        return None if found is None else int(found)

    def pids(self) -> list[int]:
        """Return an empty list, because process IDs of the node are not valid on this machine."""
        return []

    def data_directories(self) -> list[Path]:
        """Return an empty list, because the directories are on the node."""
        return []

    def requests_served(self) -> int | None:
        found = self._asked("requests_served")
        return None if found is None else int(found)

    def syncs_served(self) -> int | None:
        found = self._asked("syncs_served")
        return None if found is None else int(found)

    def _asked(self, what: str) -> Any:
        with named(self.node):
            return ask_all([self.node], "server", [{"number": self._number, "what": what}])[0]


def _check_is_there(node: Node, access: Mapping[str, Any], address: str) -> None:
    """Raise DynoError if a node reports its server at an address other than the expected one.

    The node only claims the port, and that the server is on this machine. Consent (`token`) proves that the server is
    meant for this load, in any network namespace.
    """
    hosts = {urlsplit(url).hostname for url in (access["url"], access["secure_url"]) if url is not None}
    namespace = access["network_namespace"]
    is_inside = namespace and not (node.on_this_machine and NAMESPACE.fullmatch(namespace))
    if hosts != {address.strip("[]")} or is_inside or access["connect_to"]:
        raise DynoError(
            f"{node.name} reports its server at {quoted(access['url'])}, but the server must be at {address}"
        )


@contextmanager
def named(node: Node) -> Iterator[None]:
    """Add the node's name to a ServerError."""
    try:
        yield
    except ServerError as error:
        raise ServerError(f"{node.name}: {error}", hint=error.hint) from error


@contextmanager
def served_by(
    node: Node,
    configuration: Configuration,
    address: str,
    machine: Mapping[str, Any],
    team: Mapping[str, Any] | None = None,
) -> Iterator[NodeServer]:
    """Yield a server on a node, ready for load. Raises DynoError with the node's own message.

    `machine` contains the node's facts for the disclosure. `team` is passed to `ServerPlace.start`; None if there is no
    team.
    """
    team = team or {"token": secrets.token_hex(TOKEN_BYTES), "backs": []}
    wanted = {
        "server": configuration.server,
        "settings": configuration.settings,
        "cpus": list(configuration.cpus),
        "address": address,
        "team": team,
    }
    with named(node):
        [told] = ask_all([node], "serve", [wanted])
    server = NodeServer(node, told, {**machine, "address": address}, team["token"])
    try:
        yield server
    finally:
        _end(node, told["number"])


def _end(node: Node, number: int) -> None:
    """End a server on a node. A lost node ends its servers by itself."""
    if node.lost:
        return
    try:
        with named(node):
            ask_all([node], "end_server", [{"number": number}])
    except DynoError:
        if not node.lost:
            raise
