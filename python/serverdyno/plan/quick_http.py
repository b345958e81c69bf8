"""Options of `dyno load` that set no field of a suite or plan directly: files, trust, and address to connect to."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import socket
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import SplitResult, urlsplit

from pydantic import Field

from serverdyno import _native
from serverdyno.errors import UserError
from serverdyno.plan.document import parse_toml, read_text
from serverdyno.plan.protocols.access import ANYBODY
from serverdyno.plan.protocols.model import Model
from serverdyno.plan.protocols.options import Option
from serverdyno.plan.url_list import read_url_list

HTTP_PORT, HTTPS_PORT = 80, 443
PROXIES = ("http_proxy", "https_proxy", "all_proxy")
LOOPBACKS = ("127.0.0.1", "::1")
LISTENS_S = 5.0
MOST_SOCKET_BYTES = 107
_RESOLVE = re.compile(
    r"(?P<host>\[[^\]]+\]|[^:\[\]]+):(?P<port>\d{1,5}):(?P<address>\[[^\]]+\]|.+)", re.ASCII
)
SECRET = re.compile(r"authorization|api-?key|token|secret|passw|credential|session-?id", re.IGNORECASE)
NOT_OF_SESSIONS = ("method", "data", "data_file", "content_type", "urls", "expect_status", "expect_bytes")


class HttpOptions(Model):
    """The values on the command line; None if not given."""

    content_type: Annotated[str | None, Option(("--content-type", "-T"))] = Field(
        default=None, description="The header Content-Type, like -T of ab."
    )
    cookie: Annotated[list[str], Option(("--cookie", "-b", "-C"))] = Field(
        default=[], description="A cookie to send, like -b of curl: name=value. Every record contains it."
    )
    ramp: Annotated[float | None, Option(is_time=True)] = Field(
        default=None,
        ge=0,
        description="Unmeasured time at the start and at the end of a level. Default: a tenth of its length.",
    )
    urls: Path | None = Field(
        default=None,
        description="A file of paths to request, one per line: /path, or /path WEIGHT. Also a list of URLs, "
        "the output of uniq -c, or an access log. Letters outside ASCII are sent percent-encoded, in UTF-8.",
    )
    session: Path | None = Field(
        default=None,
        description="A file of steps (TOML) that each client performs in order; see docs/sessions.md.",
    )
    ca_file: Path | None = Field(
        default=None, description="Trust the authorities in this file (PEM) instead of the system's."
    )
    insecure: Annotated[bool, Option(("--insecure", "-k"))] = Field(
        default=False, description="Accept any certificate; the report mentions this."
    )
    resolve: str | None = Field(
        default=None,
        description="Connect to this address instead of the URL's host: HOST:PORT:ADDRESS. Requests still "
        "name the host.",
    )
    addresses: Literal["one", "all"] = Field(
        default="one",
        description="Load one address of the URL's host, or each address in turn, with one row per address.",
    )
    unix_socket: Path | None = Field(
        default=None, description="Connect to this socket on this machine instead of to the URL's host."
    )

    def _place_problems(self, url: str) -> Iterator[str]:
        if self.unix_socket is not None and len(os.fsencode(self.unix_socket.absolute())) > MOST_SOCKET_BYTES:
            yield f"--unix-socket: the path of a socket can have at most {MOST_SOCKET_BYTES} bytes"
        if self.unix_socket is not None and not self.unix_socket.is_socket():
            found_there = "is not a Unix socket" if self.unix_socket.exists() else "does not exist"
            yield f"--unix-socket: {self.unix_socket} {found_there}"
        if self.addresses == "all" and (self.unix_socket or self.resolve):
            yield "--addresses: has no effect with --resolve or --unix-socket"
        if self.resolve is None:
            return
        if self.unix_socket is not None:
            yield "--resolve: has no effect with --unix-socket"
        found = _RESOLVE.fullmatch(self.resolve)
        if found is None:
            yield f"--resolve: {self.resolve!r} is not HOST:PORT:ADDRESS"
            return
        if not _is_address(found["address"].strip("[]")):
            yield f"--resolve: {found['address']} is not an IP address"
        try:
            parts = urlsplit(url)
            port = _port(parts)
        except ValueError:
            return  # reported for the URL
        if (found["host"].strip("[]").lower(), int(found["port"])) != (parts.hostname, port):
            yield f"--resolve: {found['host']}:{found['port']} is not the URL's host, {parts.hostname}:{port}"

    def documents(self, url: str) -> dict[str, Any]:
        """Return a suite's section `documents`: the paths or steps in a file. Raises UserError."""
        if self.session is not None:
            return {"steps": _steps(self.session)}
        if self.urls is None:
            return {}
        return {"paths": read_url_list(self.urls, url)}

    def headers(self) -> list[str]:
        """Return the headers that the user set with dedicated options."""
        content_type = [] if self.content_type is None else [f"Content-Type: {self.content_type}"]
        return [*content_type, *(f"Cookie: {cookie}" for cookie in self.cookie)]

    def server_settings(self) -> dict[str, Any]:
        """Return the settings for trust and for the address to connect to."""
        place = self.connect_to()
        return self._trust() | ({} if place is None else {"connect_to": place})

    def each_address(self, url: str) -> list[str]:
        """Return each address of the URL's host, or none if only one is to be loaded. Raises UserError."""
        return [] if self.addresses == "one" else _listening_here(url) or addresses_of(url)

    def _trust(self) -> dict[str, Any]:
        if self.insecure:
            return {"trust": ANYBODY}
        return {} if self.ca_file is None else {"trust": str(self.ca_file.absolute())}

    def connect_to(self) -> str | None:
        """Return the address or socket to use instead of the URL's host; None if there is none."""
        if self.unix_socket is not None:
            return str(self.unix_socket.absolute())
        found = None if self.resolve is None else _RESOLVE.fullmatch(self.resolve)
        address = None if found is None else found["address"].strip("[]")
        return address if address is not None and _is_address(address) else None

    def problems(self, url: str, given: Collection[str] = ()) -> Iterator[str]:
        """Yield options that exclude each other or don't apply to this URL. `given` are the names of all options."""
        if self.insecure and self.ca_file is not None:
            yield "--insecure: accepts any certificate, so --ca-file has no effect"
        if self._trust() and not url.startswith("https:"):
            yield (
                "--insecure and --ca-file: require a URL that begins with https:// (unlike ab -k, "
                "connections are kept by default here)"
            )
        yield from (
            f"--cookie: {cookie!r} is not name=value; cookies are not read from a file"
            for cookie in self.cookie
            if "=" not in cookie
        )
        yield from self._place_problems(url)
        if self.session is not None and any(name in given for name in NOT_OF_SESSIONS):
            yield (
                "--session: its steps define the requests and the expected answers; leave out --method, --data, "
                "--data-file, --content-type, --urls, --expect-status and --expect-bytes"
            )


def _port(parts: SplitResult) -> int:
    """Return the port of a URL, or the usual one of its scheme. Raises ValueError."""
    return parts.port or (HTTPS_PORT if parts.scheme == "https" else HTTP_PORT)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _steps(file: Path) -> list[Any]:
    """Return the tables `[[steps]]` of a file. Raises UserError, or PlanError if the file is not TOML."""
    document = parse_toml(read_text(file), str(file))
    steps = document.get("steps")
    if set(document) != {"steps"} or not isinstance(steps, list):
        raise UserError(
            f"{file} is not a session: it must contain only [[steps]] tables",
            hint="See docs/sessions.md.",
        )
    return steps


def _listening_here(url: str) -> list[str]:
    """Return the loopback addresses on which something listens if the URL's host is a loopback name, else none.

    The load tries both, whatever the system resolves such a name to.
    """
    parts = urlsplit(url)
    host, found = parts.hostname or "", list[str]()
    try:
        port = _port(parts)
    except ValueError:
        return []  # reported for the URL
    if _is_address(host) or not _native.names_loopback(host):
        return []
    for address in LOOPBACKS:
        with contextlib.suppress(OSError), socket.create_connection((address, port), LISTENS_S):
            found.append(address)
    return found


def addresses_of(url: str) -> list[str]:
    """Return each address of the URL's host. Raises UserError."""
    host = urlsplit(url).hostname or ""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        proxy = next((name for name in PROXIES if os.environ.get(name) or os.environ.get(name.upper())), None)
        told = (
            f" dyno uses no proxy, though {proxy} is set: give --resolve HOST:PORT:ADDRESS." if proxy else ""
        )
        raise UserError(
            f"{host} has no address: {error.strerror}",
            hint=f"Check the spelling of the host, and that this machine's DNS or /etc/hosts has it.{told}",
        ) from error
    return list(dict.fromkeys(f"{address[0]}" for *_, address in found))
