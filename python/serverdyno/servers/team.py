"""A team: a front that clients speak to, and one or more servers behind it.

All members are on one machine, or `fleet/node_team.py` starts the servers behind the front on other machines. Like
TUX in front of Apache in VeriTest 2003, appendix C, the front serves what it can (documents, cache) and forwards the
rest. Before any load, a check proves which server and port generates the dynamic page, with and without TLS. The
members are single servers that dyno starts.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, ValidationError, model_validator

from serverdyno import _native, wording
from serverdyno.errors import ServerError, UserError
from serverdyno.servers import dynamic
from serverdyno.servers.apache import Apache
from serverdyno.servers.base import Access, Description, Installed, Settings
from serverdyno.servers.haproxy import Haproxy
from serverdyno.servers.lighttpd import Lighttpd
from serverdyno.servers.members import Members, of_member, together
from serverdyno.servers.nginx import Nginx
from serverdyno.servers.reference import Reference
from serverdyno.servers.varnish import Varnish
from serverdyno.servers.web import Behind, Dynamic, WebServer, WebSettings

FRONTS: dict[str, type[WebServer[Any]]] = {
    driver.name: driver for driver in (Nginx, Haproxy, Varnish, Reference)
}
BACKS: dict[str, type[WebServer[Any]]] = {driver.name: driver for driver in (Apache, Nginx, Lighttpd)}
MOST_ASKED = 100
"""Maximum number of requests per server behind a front until each has answered: each worker has its own round-robin."""
OF_THE_TEAM = ("tls", "also_clear", "tls_min_version", "tls_max_version", "tls_resumption", "processors")


class TeamSettings(WebSettings):
    """Settings of a team. The TLS settings apply to the member that terminates TLS."""

    front: Literal["nginx", "haproxy", "varnish", "reference"] = Field(
        default="nginx",
        description="The server that receives the clients' requests. nginx and reference serve documents, "
        "varnish caches them, and haproxy forwards all requests.",
    )
    back: Literal["apache", "nginx", "lighttpd"] = Field(
        default="apache",
        description="The server that generates the dynamic page and serves everything that the front does "
        "not.",
    )
    backs: int = Field(default=1, ge=1, le=16, description="Number of servers behind the front.")
    dynamic: Dynamic | Literal["native"] = Field(
        default="off", description="How the servers behind the front generate the dynamic page."
    )
    tls_by: Literal["front", "back"] = Field(
        default="front",
        description="The server that speaks TLS on the second port of `also_clear`. back: over TLS, clients "
        "connect directly to the first server behind the front, as with TUX.",
    )
    front_settings: dict[str, Any] = Field(default={}, description="Further settings of the front.")
    back_settings: dict[str, Any] = Field(
        default={}, description="Further settings of the servers behind the front."
    )

    @model_validator(mode="after")
    def members_are_sound(self) -> Self:
        """Refuse settings that a member would refuse, and settings that no team can have."""
        problems = []
        if self.program is not None:
            problems.append("program: a team has several programs, so use front_settings and back_settings")
        if self.tls_by == "back" and self.over_tls and not self.also_clear:
            problems.append('tls_by = "back" requires also_clear = true')
        for key, settings_type, make in (
            ("front_settings", FRONTS[self.front].settings_type, self.of_front),
            ("back_settings", BACKS[self.back].settings_type, self.of_back),
        ):
            if key == "front_settings" and self.front == "reference" and self.front_settings.get("http2"):
                problems.append(
                    "front_settings: http2: the reference server does not forward HTTP/2 requests"
                )
            if wrong := sorted(set(getattr(self, key)) & {*OF_THE_TEAM, "dynamic"}):
                problems.append(f"{key}: set {', '.join(wrong)} in the team's own settings instead")
                continue
            try:
                settings_type.model_validate(make())
            except ValidationError as error:
                problems += [
                    f"{key}: {'.'.join(map(str, found['loc']))}: {wording.refusal(found)}"
                    for found in error.errors()
                ]
        if problems:
            raise ValueError("; ".join(problems))
        return self

    @property
    def name_of_front(self) -> str:
        return f"front {self.front}"

    def names_of_backs(self) -> list[str]:
        if self.backs == 1:
            return [f"back {self.back}"]
        return [f"back {self.back} {number}" for number in range(1, self.backs + 1)]

    def of_front(self) -> dict[str, Any]:
        return {**self.front_settings, **self._shared("front")}

    def of_back(self) -> dict[str, Any]:
        return {**self.back_settings, **self._shared("back"), "dynamic": self.dynamic}

    @property
    def tls_at_the_back(self) -> bool:
        """Whether clients connect to the first server behind the front directly, over TLS."""
        return self.over_tls and self.tls_by == "back"

    def _shared(self, member: str) -> dict[str, Any]:
        if self.over_tls and self.tls_by == member:
            return {key: getattr(self, key) for key in OF_THE_TEAM}
        return {"processors": self.processors}


class Team(Members):
    """A front and the servers behind it. See `base.ServerDriver` for the contract."""

    name: ClassVar[str] = "team"
    summary: ClassVar[str] = "a reverse proxy in front of Apache, nginx or lighttpd"
    debian_package: ClassVar[str | None] = "nginx-light haproxy varnish apache2"
    settings_type: ClassVar[type[Settings]] = TeamSettings

    def __init__(
        self,
        settings: TeamSettings,
        directory: Path,
        documents: Path,
        cpus: Sequence[int] = (),
        url: str | None = None,
    ) -> None:
        """Create the members, each with its own private directory. Raises UserError for a `url`."""
        if url is not None:
            raise UserError(
                "url: dyno starts the proxy and the servers behind it itself, so there is no URL to give"
            )
        self.settings = settings
        token = secrets.token_hex(16)
        self._elsewhere: tuple[Behind, ...] = ()
        secret = directory.name.rpartition("-")[2]

        def member(kind: type[WebServer[Any]], role: str, given: dict[str, Any]) -> WebServer[Any]:
            checked = kind.settings_type.model_validate(given)
            made = kind(checked, directory.with_name(f"serverdyno-{role}-{secret}"), documents, cpus)
            made.given_token = token  # consent to load one member is consent to load all
            return made

        self.front = member(FRONTS[settings.front], "front", settings.of_front())
        self.back_servers = [
            member(BACKS[settings.back], f"back-{'abcdefghijklmnop'[number]}", settings.of_back())
            for number in range(settings.backs)
        ]
        self._proof: list[str] = []

    @staticmethod
    def installed() -> Installed | None:
        """Return whether any front and any back are installed. The run checks those in the plan."""
        fronts = [driver.name for driver in FRONTS.values() if driver.installed()]
        backs = [driver.name for driver in BACKS.values() if driver.installed()]
        if not fronts or not backs:
            return None
        return Installed(f"{len(fronts)} fronts, {len(backs)} servers behind them", None)

    @property
    def members(self) -> Mapping[str, WebServer[Any]]:
        """Return the members by their names in records: `front nginx`, `back apache 1`."""
        backs = zip(self.settings.names_of_backs(), self.back_servers, strict=False)
        return {self.settings.name_of_front: self.front, **dict(backs)}

    def listen_on(self, address: str) -> None:
        """Let the front, and the member that terminates TLS, listen on an address. Raises UserError."""
        self.front.listen_on(address)
        if self.settings.tls_at_the_back and self.back_servers:
            if self.settings.front == "reference":
                raise UserError(
                    "the reference server as front can only reach servers on loopback, but the back "
                    "would listen elsewhere",
                    hint='Remove tls_by = "back", or use another front.',
                )
            self.back_servers[0].listen_on(address)

    def consent_to(self, token: str) -> None:
        """Give the consent token to every member. See `LocalServer.consent_to`."""
        for member in self.members.values():
            member.consent_to(token)

    def stand_before(self, backs: Sequence[Behind]) -> None:
        """Replace the servers behind the front with servers that run elsewhere. Call it before `prepare`.

        Raises UserError, and ServerError if two of them have the same port: a page names its port but not its
        machine.
        """
        if self.settings.front == "reference":
            raise UserError(
                "the reference server as front can only reach servers on loopback",
                hint=f"Fronts: {', '.join(FRONTS)}.",
            )
        if len({back.port for back in backs}) < len(backs):
            raise ServerError(
                f"two servers behind the front have the same port: {', '.join(map(str, backs))}",
                hint="Try again: dyno then chooses other ports.",
            )
        self.back_servers, self._elsewhere = [], tuple(backs)

    @property
    def behind(self) -> tuple[Behind, ...]:
        """Return the addresses of the servers behind the front. Local ones are valid after their `ready`."""
        return self._elsewhere or tuple(Behind(back.host, back.port) for back in self.back_servers)

    def prepare(self) -> None:
        """Prepare the servers behind the front. The front needs their ports, so `ready` prepares the front."""
        for back in self.back_servers:
            back.prepare()

    def start(self) -> None:
        for back in self.back_servers:
            back.start()

    def ready(self) -> None:
        """Wait for all members, and prove which server generates the page. Raises ServerError."""
        for back in self.back_servers:
            back.ready()
        if self.front.process is None:
            self.front.backs = self.behind
            self.front.prepare()
            self.front.start()
        self.front.ready()
        self._proof = [self._document_note()]
        if self.settings.dynamic != "off":
            self._proof += [self._proven(server, endpoint) for server, endpoint in self._endpoints()]
            self._proof += self._all_proven()

    def _endpoints(self) -> list[tuple[WebServer[Any], tuple[int, bool]]]:
        """Return each port to which clients connect, with the member that listens there."""
        endpoints = [(self.front, endpoint) for endpoint in self.front.endpoints()]
        if self._tls_back is not None:
            endpoints.append((self._tls_back, (self._tls_back.secure_port, True)))
        return endpoints

    @property
    def _tls_back(self) -> WebServer[Any] | None:
        back = self.back_servers[0] if self.back_servers else None
        return back if back is not None and back.secure_port else None

    def _document_note(self) -> str:
        """Return a note on the server that sends a document, identified by its Server header."""
        answer = self.front.asked("/wbtree/223/223_0000.gif")
        if answer["status"] != HTTPStatus.OK:
            raise ServerError(
                f"{self.front.name} in front of {self.settings.back} does not serve documents: status "
                f"{answer['status']}",
                hint=self.front._own_words(),
            )
        return f"Before load, a document at the front came from {answer['server'] or 'an unnamed server'}."

    def _proven(self, server: WebServer[Any], endpoint: tuple[int, bool]) -> str:
        """Return a sentence on the server that generated the page at a port. Raises ServerError."""
        over = "over TLS" if endpoint[1] else "in the clear"
        made = self._made_by(server, endpoint)
        by = "front" if server is self.front else "back"
        return f"Before load, {made} generated the dynamic page that was requested from the {by} {over}."

    def _made_by(self, server: WebServer[Any], endpoint: tuple[int, bool]) -> dynamic.MadeBy:
        """Return the server behind the front that generates the page. Raises ServerError if none does."""
        over = "over TLS" if endpoint[1] else "in the clear"
        query = dynamic.fresh_query()
        try:
            made = dynamic.judged(self.name, query, server.asked(f"{dynamic.PATH}?{query}", endpoint))
        except (_native.AnswerError, ServerError) as error:
            hint = getattr(error, "hint", None) or "The front may not reach the server behind it."
            raise ServerError(
                f"the server behind {self.front.name} did not send the dynamic page {over}: {error}\n"
                f"{self.front._own_words()}",
                hint=hint,
            ) from error
        ports = {str(back.port) for back in self.behind}
        ports |= {str(port) for back in self.back_servers for port in back.ports()}
        if made.port not in ports or made.carrier != self.settings.dynamic:
            raise ServerError(
                f"{made} generated the dynamic page {over}, but is not a server behind {self.front.name} "
                f"(ports {', '.join(sorted(ports))})"
            )
        return made

    def _all_proven(self) -> list[str]:
        """Request the page until each server behind the front has generated it. Raises ServerError."""
        if len(self.behind) == 1:
            return []
        silent = {str(back.port): back for back in self.behind}
        for _ in range(MOST_ASKED * len(self.behind)):
            silent.pop(self._made_by(self.front, self.front.endpoints()[0]).port, None)
            if not silent:
                named = ", ".join(str(back) for back in self.behind)
                return [f"Before load, each server behind the front generated the page: {named}."]
        names = ", ".join(str(back) for back in silent.values())
        raise ServerError(
            f"{self.front.name} never forwarded a request to {names}\n{self.front._own_words()}",
            hint="Check that the front's machine can reach that address and port.",
        )

    @property
    def is_here(self) -> bool:
        """Return True: the front runs on this machine."""
        return True

    def describe(self) -> Description:
        described = [of_member(name, each.describe()) for name, each in self.members.items() if each.process]
        whole = together(described, self.name, self.settings.model_dump())
        whole.notes[:0] = self._proof
        return whole

    @property
    def url(self) -> str:
        return self.front.url

    def access(self) -> Access:
        """Return the front's access. The trust and the TLS URL come from the member that terminates TLS."""
        if self._tls_back is None:
            return self.front.access()
        behind = self._tls_back.access()
        return replace(self.front.access(), trust=behind.trust, secure_url=behind.secure_url)

    def stop(self) -> None:
        with ExitStack() as stack:
            for back in self.back_servers:
                stack.callback(back.stop)
            stack.callback(self.front.stop)

    def requests_served(self) -> int | None:
        """Return the front's own count; None if clients use a back over TLS, so that no server counts all requests."""
        return None if self._tls_back is not None else self.front.requests_served()
