"""A team whose members are on several nodes: the front on one, those behind it on others, as one server.

Each member is started, proven, measured and stopped on its own node (`serving.py`); the front's node proves that each
of those behind makes the page that is asked for at the front. Not for: what a front does (`servers/team.py`).
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
    """A node that serves: its address for servers, and what is disclosed of it."""

    node: Node
    address: str
    machine: Mapping[str, Any]


class NodeTeam(Members):
    def __init__(self, settings: TeamSettings, front: NodeServer, backs: Mapping[str, NodeServer]) -> None:
        """`backs`: by what they are called in records, in order."""
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
        """Whether a member takes CPU time of this machine."""
        return any(node.on_this_machine for node, _, _ in self.places)

    @property
    def url(self) -> str:
        return self.front.url

    def access(self) -> Access:
        """The front's; over TLS that of the member that speaks it."""
        if not self.settings.tls_at_the_back:
            return self.front.access()
        behind = next(iter(self.backs.values())).access()
        return replace(self.front.access(), trust=behind.trust, secure_url=behind.secure_url)

    def check(self) -> None:
        """Raises ServerError where a member has ended, DynoError where its node is lost: it says which member."""
        for name, member in self.members.items():
            try:
                member.check()
            except DynoError as error:
                raise type(error)(f"{name}: {error}", hint=error.hint) from error

    def describe(self) -> Description:
        """Every member, in one."""
        backs = [of_member(name, back.describe()) for name, back in self.backs.items()]
        # The front's node has said which member it speaks of.
        return together([self.front.describe(), *backs], "team", self.settings.model_dump())

    def requests_served(self) -> int | None:
        """The front's own count; of a team whose clients ask a back over TLS, nobody counts all."""
        return None if self.settings.tls_at_the_back else self.front.requests_served()


@contextmanager
def team_on(
    configuration: Configuration, nodes: Mapping[str, ServerNode], settings: TeamSettings
) -> Iterator[NodeTeam]:
    """A team on the nodes that its configuration names, ready for load, until the block ends. Raises DynoError."""
    assert configuration.node is not None, "checked with the plan"
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
