"""A server on a node of the fleet: its driver runs there, under the same keeper, and the controller asks for figures.

`ServerPlace` is the node's side, `NodeServer` the controller's, and `served_by` the server while a block lasts. It
ends with its node, and where no controller is heard of any more. Not for: the load (`worker.py`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from serverdyno.errors import ServerError
from serverdyno.fleet.contract import Node, ask_all
from serverdyno.plan.model import Configuration
from serverdyno.servers.base import Access, Description
from serverdyno.servers.running import running

if TYPE_CHECKING:
    from serverdyno.servers.base import RunningServer

ASKED = frozenset(
    {"check", "cpu_by_member_s", "cpu_s", "crashes", "requests_served", "rss_bytes", "syncs_served"}
)
"""What of a running server the controller may ask for."""


class ServerPlace:
    """What a node holds of the server that runs on it."""

    def __init__(self) -> None:
        self._life = ExitStack()
        self._server: RunningServer | None = None

    def start(
        self, server: str, settings: Mapping[str, Any], cpus: Sequence[int], address: str
    ) -> dict[str, Any]:
        """Start a server and prove it, on an address of this node; how it is reached, and what is disclosed of it."""
        self.stop()
        self._server = self._life.enter_context(running(server, settings, cpus=cpus, address=address))
        return {
            "access": dataclasses.asdict(self._server.access()),
            "description": dataclasses.asdict(self._server.describe()),
        }

    def ask(self, what: str) -> Any:
        """Return one figure of the server."""
        if what not in ASKED:
            raise ValueError(f"no such question to a server: {what!r}")
        if self._server is None:
            raise ServerError("no server runs on this node")
        return getattr(self._server, what)()

    def stop(self) -> None:
        """End the server, if there is one."""
        self._server = None
        self._life.close()


class NodeServer:
    """A server on a node, as the controller has it; see `servers.base.RunningServer`."""

    def __init__(self, node: Node, told: Mapping[str, Any], machine: Mapping[str, Any]) -> None:
        """`told`: what `ServerPlace.start` has returned; `machine`: what is disclosed of the node."""
        self.node, self.machine = node, machine
        access = told["access"]
        self._access = Access(**{**access, "shares": tuple(access["shares"])})
        described = Description(**told["description"])
        self._description = dataclasses.replace(
            described, notes=[f"Runs on {node.name} of the fleet.", *described.notes]
        )

    @property
    def is_here(self) -> bool:
        """Whether it takes CPU time of this machine."""
        return self.node.on_this_machine

    @property
    def url(self) -> str:
        """Where load goes."""
        return self._access.url

    def access(self) -> Access:
        """The URL, and what else it takes to be let in."""
        return self._access

    def describe(self) -> Description:
        """As the node disclosed it."""
        return self._description

    def ask(self, target: object) -> None:
        """Nothing: the node has proven it."""

    def check(self) -> None:
        """Raises ServerError where it has ended, DynoError where its node is lost."""
        self._asked("check")

    def crashes(self) -> list[str]:
        """See `RunningServer`."""
        return list(self._asked("crashes"))

    def cpu_s(self) -> float | None:
        """On its node."""
        found = self._asked("cpu_s")
        return None if found is None else float(found)

    def cpu_by_member_s(self) -> dict[str, float | None]:
        """On its node."""
        return dict(self._asked("cpu_by_member_s"))

    def rss_bytes(self) -> int | None:
        """On its node."""
        found = self._asked("rss_bytes")
        return None if found is None else int(found)

    def pids(self) -> list[int]:
        """None that mean anything here."""
        return []

    def data_directories(self) -> list[Path]:
        """None that are here."""
        return []

    def requests_served(self) -> int | None:
        """Its own count."""
        found = self._asked("requests_served")
        return None if found is None else int(found)

    def syncs_served(self) -> int | None:
        """Its own count."""
        found = self._asked("syncs_served")
        return None if found is None else int(found)

    def _asked(self, what: str) -> Any:
        return ask_all([self.node], "server", [{"what": what}])[0]


@contextmanager
def served_by(
    node: Node, configuration: Configuration, address: str, machine: Mapping[str, Any]
) -> Iterator[NodeServer]:
    """A server on a node, ready for load, until the block ends. Raises DynoError with the node's own words.

    `machine`: what is disclosed of the node.
    """
    wanted = {
        "server": configuration.server,
        "settings": configuration.settings,
        "cpus": list(configuration.cpus),
        "address": address,
    }
    try:
        [told] = ask_all([node], "serve", [wanted])
    except ServerError as error:
        raise ServerError(f"{node.name}: {error}", hint=error.hint) from error
    try:
        yield NodeServer(node, told, {**machine, "address": address})
    finally:
        if not node.lost:
            ask_all([node], "end_server")
