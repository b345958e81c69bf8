"""The options of `dyno load` that say how requests are made and whom to trust, as parts of a suite and a plan."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from serverdyno.errors import UserError
from serverdyno.plan.document import parse_toml, read_text
from serverdyno.protocols.access import ANYBODY

MOST_URLS_BYTES = 1 << 20
HTTP_PORT, HTTPS_PORT = 80, 443
MOST_SOCKET_BYTES = 107
_RESOLVE = re.compile(
    r"(?P<host>\[[^\]]+\]|[^:\[\]]+):(?P<port>\d{1,5}):(?P<address>\[[^\]]+\]|.+)", re.ASCII
)
SECRET = ("authorization", "proxy-authorization", "cookie")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """As given on the command line; what was left out says nothing."""

    method: str | None = None
    header: tuple[str, ...] = ()
    data: str | None = None
    data_file: Path | None = None
    content_type: str | None = None
    urls: Path | None = None
    session: Path | None = None
    auth: str | None = None
    auth_variable: str | None = None
    expect_status: str | None = None
    expect_bytes: int | None = None
    ca_file: Path | None = None
    insecure: bool = False
    tls_min: str | None = None
    tls_max: str | None = None
    ciphers: str | None = None
    resumption: float | None = None
    resolve: str | None = None
    unix_socket: Path | None = None

    def command(self) -> Iterator[str]:
        """The words of a command line with these options."""
        for field in fields(self):
            value, name = getattr(self, field.name), f"--{field.name.replace('_', '-')}"
            if isinstance(value, tuple):
                for each in value:
                    yield from (name, each)
            elif value is True:
                yield name
            elif value is not None and value is not False:
                yield from (name, str(value))

    def section(self) -> dict[str, Any]:
        """What of a suite's section `http` follows from them."""
        return {**self._request(), **self._tls()}

    def _request(self) -> dict[str, Any]:
        has_body = self.data is not None or self.data_file is not None
        found = {
            "method": self.method or ("POST" if has_body else None),
            "headers": self._headers() or None,
            "body": self.data,
            "body_file": None if self.data_file is None else str(self.data_file.absolute()),
            "authorization": self.auth,
            "authorization_variable": self.auth_variable,
            "status": None if self.expect_status is None else _statuses(self.expect_status),
            "body_bytes": self.expect_bytes,
        }
        given = {key: value for key, value in found.items() if value is not None}
        return {"request": given} if given else {}

    def _headers(self) -> list[str]:
        given = [] if self.content_type is None else [f"Content-Type: {self.content_type}"]
        return [*self.header, *given]

    def _tls(self) -> dict[str, Any]:
        found = {
            "min_version": self.tls_min,
            "max_version": self.tls_max,
            "ciphers": None if self.ciphers is None else self.ciphers.split(","),
            "resumption": self.resumption,
        }
        given = {key: value for key, value in found.items() if value is not None}
        return {"tls": given} if given else {}

    def _place_problems(self, url: str) -> Iterator[str]:
        if self.unix_socket is not None and len(os.fsencode(self.unix_socket.absolute())) > MOST_SOCKET_BYTES:
            yield f"--unix-socket: the path of a socket has {MOST_SOCKET_BYTES} bytes at most"
        if self.resolve is None:
            return
        if self.unix_socket is not None:
            yield "--resolve: has no effect with --unix-socket"
        found = _RESOLVE.fullmatch(self.resolve)
        if found is None:
            yield f"--resolve: {self.resolve!r} is not HOST:PORT:ADDRESS"
            return
        if not _is_address(found["address"].strip("[]")):
            yield f"--resolve: {found['address']} is no IP address"
        try:
            parts = urlsplit(url)
            port = parts.port or (HTTPS_PORT if parts.scheme == "https" else HTTP_PORT)
        except ValueError:
            return  # said of the URL
        if (found["host"].strip("[]").lower(), int(found["port"])) != (parts.hostname, port):
            yield f"--resolve: {found['host']}:{found['port']} is not the URL's host, {parts.hostname}:{port}"

    def documents(self) -> dict[str, Any]:
        """What of a suite's section `documents` follows: paths or steps in a file. Raises UserError."""
        if self.session is not None:
            return {"steps": _steps(self.session)}
        if self.urls is None:
            return {}
        try:
            text = self.urls.read_text(encoding="ascii")[:MOST_URLS_BYTES]
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(
                f"the paths in {self.urls} can't be read: {error}",
                hint="A line each: /path, or /path weight.",
            ) from error
        lines = (line.strip() for line in text.splitlines())
        return {"paths": [line for line in lines if line and not line.startswith("#")]}

    def server_settings(self) -> dict[str, Any]:
        """Whom to trust, and where to connect."""
        place = self.connect_to()
        return self._trust() | ({} if place is None else {"connect_to": place})

    def _trust(self) -> dict[str, Any]:
        if self.insecure:
            return {"trust": ANYBODY}
        return {} if self.ca_file is None else {"trust": str(self.ca_file.absolute())}

    def connect_to(self) -> str | None:
        """Return the address or the socket in place of the URL's host; None: there is none."""
        if self.unix_socket is not None:
            return str(self.unix_socket.absolute())
        found = None if self.resolve is None else _RESOLVE.fullmatch(self.resolve)
        address = None if found is None else found["address"].strip("[]")
        return address if address is not None and _is_address(address) else None

    def problems(self, url: str) -> Iterator[str]:
        """What excludes each other, or says nothing of this URL."""
        if self.insecure and self.ca_file is not None:
            yield "--insecure: accepts any certificate, so that --ca-file says nothing"
        if self._trust() and not url.startswith("https:"):
            yield (
                "--insecure and --ca-file: only for a URL that begins with https:// (connections are kept without an "
                "option here, where ab needs -k)"
            )
        if self.method is not None and self.method.isdecimal():
            yield "--method: is a name; streams on a connection, h2load's -m, are --streams"
        yield from self._place_problems(url)
        given = (
            self.method,
            self.data,
            self.data_file,
            self.content_type,
            self.urls,
            self.expect_status,
            self.expect_bytes,
        )
        if self.session is not None and any(value is not None for value in given):
            yield (
                "--session: its steps say what is asked for and what is right; leave out --method, --data, "
                "--data-file, --content-type, --urls, --expect-status and --expect-bytes"
            )
        if self.expect_status is not None and -1 in _statuses(self.expect_status):
            yield f"--expect-status: {self.expect_status!r} is not a list of statuses like 200,304"
        if any(header.partition(":")[0].strip().lower() in SECRET for header in self.header):
            yield "--header: a credential would stand in every record; use --auth, which takes it from the environment"


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _steps(file: Path) -> list[Any]:
    """The tables `[[steps]]` of a file. Raises UserError, and PlanError where it is no TOML."""
    document = parse_toml(read_text(file), str(file))
    steps = document.get("steps")
    if set(document) != {"steps"} or not isinstance(steps, list):
        raise UserError(
            f"{file} is no session: it has nothing but tables [[steps]]", hint="See docs/sessions.md."
        )
    return steps


def _statuses(text: str) -> list[int]:
    """The numbers in `200,304`; -1 for what is none."""
    parts = [part.strip() for part in text.split(",")]
    return [int(part) if part.isascii() and part.isdigit() else -1 for part in parts]
