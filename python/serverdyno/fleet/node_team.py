"""A team with members on several nodes, as one server: the front on one node, the servers behind it on others.

Each member is started, proven, measured and stopped on its own node (`serving.py`). The front's node proves that each
server behind it generates the page that clients request from the front. `servers/team.py` defines the fronts.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import cycle
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from serverdyno.errors import DynoError
from serverdyno.fleet.consent import TOKEN_BYTES
from serverdyno.fleet.contract import Node
from serverdyno.fleet.serving import NodeServer, served_by
from serverdyno.plan.model import Configuration
from serverdyno.servers.base import Access, Description, RunningServer
from serverdyno.servers.members import Members, of_member, together

if TYPE_CHECKING:
    from serverdyno.servers.team import TeamSettings


@dataclass(frozen=True, slots=True)
class ServerNode:
    """A node that runs servers: their address on the node, and the node's facts for the disclosure."""

    node: Node
    address: str
    machine: Mapping[str, Any]


class NodeTeam(Members):
    def __init__(self, settings: TeamSettings, front: NodeServer, backs: Mapping[str, NodeServer]) -> None:
        """Create the team. `backs` contains the servers behind the front in order, by their names in records."""
        self.settings, self.front, self.backs = settings, front, dict(backs)

    @property
    def members(self) -> Mapping[str, RunningServer]:
        return {self.settings.name_of_front: self.front, **self.backs}

    @property
    def places(self) -> list[tuple[Node, str, Mapping[str, Any]]]:
        named = {self.settings.name_of_front: self.front, **self.backs}
        return [(member.node, name, member.machine) for name, member in named.items()]

    @property
    def is_here(self) -> bool:
        """Whether a member uses CPU time of this machine."""
        return any(node.on_this_machine for node, _, _ in self.places)

    @property
    def url(self) -> str:
        return self.front.url

    def access(self) -> Access:
        """Return the front's access. The trust and the TLS URL come from the member that terminates TLS."""
        if not self.settings.tls_at_the_back:
            return self.front.access()
        behind = next(iter(self.backs.values())).access()
        return replace(self.front.access(), trust=behind.trust, secure_url=behind.secure_url)

    def check(self) -> None:
        """Raise ServerError if a member has ended, or DynoError if its node is lost, with the member's name."""
        for name, member in self.members.items():
            try:
                member.check()
            except DynoError as error:
                raise type(error)(f"{name}: {error}", hint=error.hint) from error

    def describe(self) -> Description:
        """Return one description of all members."""
        backs = [of_member(name, back.describe()) for name, back in self.backs.items()]
        # The front's node has already added the member's name to its description.
        return together([self.front.describe(), *backs], "team", self.settings.model_dump())

    def requests_served(self) -> int | None:
        """Return the front's own count; None if clients use TLS with a server behind it.

        In that case, no server counts all requests.
        """
        return None if self.settings.tls_at_the_back else self.front.requests_served()


@contextmanager
def team_on(
    configuration: Configuration, nodes: Mapping[str, ServerNode], settings: TeamSettings
) -> Iterator[NodeTeam]:
    """Yield a team on the nodes that its configuration names, ready for load. Raises DynoError."""
    assert configuration.node is not None, "the plan's check ensures this"
    token = secrets.token_hex(TOKEN_BYTES)
    with ExitStack() as stack:
        backs: dict[str, NodeServer] = {}
        for name, node in zip(settings.names_of_backs(), cycle(configuration.back_nodes), strict=False):
            place = nodes[node]
            back = replace(configuration, server=settings.back, settings=settings.of_back())
            backs[name] = stack.enter_context(
                served_by(place.node, back, place.address, place.machine, {"token": token, "backs": []})
            )
        behind = [(parts.hostname, parts.port) for parts in (urlsplit(back.url) for back in backs.values())]
        place = nodes[configuration.node]
        front = stack.enter_context(
            served_by(
                place.node, configuration, place.address, place.machine, {"token": token, "backs": behind}
            )
        )
        yield NodeTeam(settings, front, backs)
