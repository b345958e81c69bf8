"""The options of `dyno load` that say how requests are made and whom to trust, as parts of a suite and a plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from serverdyno.errors import UserError
from serverdyno.protocols.access import ANYBODY

MOST_URLS_BYTES = 1 << 20
SECRET = ("authorization", "proxy-authorization", "cookie")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """As given on the command line; what was left out says nothing."""

    method: str | None = None
    header: tuple[str, ...] = ()
    data: str | None = None
    data_file: Path | None = None
    urls: Path | None = None
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
            "headers": list(self.header) or None,
            "body": self.data,
            "body_file": None if self.data_file is None else str(self.data_file.absolute()),
            "authorization": self.auth,
            "authorization_variable": self.auth_variable,
            "status": None if self.expect_status is None else _statuses(self.expect_status),
            "body_bytes": self.expect_bytes,
        }
        given = {key: value for key, value in found.items() if value is not None}
        return {"request": given} if given else {}

    def _tls(self) -> dict[str, Any]:
        found = {
            "min_version": self.tls_min,
            "max_version": self.tls_max,
            "ciphers": None if self.ciphers is None else self.ciphers.split(","),
            "resumption": self.resumption,
        }
        given = {key: value for key, value in found.items() if value is not None}
        return {"tls": given} if given else {}

    def documents(self) -> dict[str, Any]:
        """What of a suite's section `documents` follows: the paths in the file. Raises UserError."""
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
        """Whom to trust."""
        if self.insecure:
            return {"trust": ANYBODY}
        return {} if self.ca_file is None else {"trust": str(self.ca_file.absolute())}

    def problems(self, url: str) -> Iterator[str]:
        """What excludes each other, or says nothing of this URL."""
        if self.insecure and self.ca_file is not None:
            yield "--insecure: accepts any certificate, so that --ca-file says nothing"
        if self.server_settings() and not url.startswith("https:"):
            yield "--insecure and --ca-file: only for a URL that begins with https://"
        if self.expect_status is not None and -1 in _statuses(self.expect_status):
            yield f"--expect-status: {self.expect_status!r} is not a list of statuses like 200,304"
        if any(header.partition(":")[0].strip().lower() in SECRET for header in self.header):
            yield "--header: a credential would stand in every record; use --auth, which takes it from the environment"


def _statuses(text: str) -> list[int]:
    """The numbers in `200,304`; -1 for what is none."""
    parts = [part.strip() for part in text.split(",")]
    return [int(part) if part.isascii() and part.isdigit() else -1 for part in parts]
