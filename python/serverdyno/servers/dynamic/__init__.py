"""The dynamic page of servers that dyno starts: the program and scripts that generate it, and the check of its source.

`crates/page` defines the page; the drivers configure each server to run the program or script.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from serverdyno import _native
from serverdyno.errors import ServerError

HERE = Path(__file__).parent
PROGRAM = HERE / "dyno-page"
COPY, SOCKET = "dyno-page", "page.sock"
PATH = _native.page_path()
BEHIND = PATH.rpartition("/")[0] + "/"
"""The directory of the page. Fronts forward requests below it, and caches store none of its files."""
ABSENT = {
    HTTPStatus.FORBIDDEN,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.METHOD_NOT_ALLOWED,
    HTTPStatus.GONE,
    HTTPStatus.NOT_IMPLEMENTED,
}


def copy_program(directory: Path, program: Path = PROGRAM) -> None:
    """Copy the program to a server's directory, where its workers can start it. Raises ServerError."""
    if not program.is_file():
        raise ServerError(
            f"the program of the dynamic page is missing: {program}", hint="To build it: make setup"
        )
    shutil.copyfile(program, directory / COPY)
    (directory / COPY).chmod(0o755)


def scripts(server: str, directory: Path, values: Mapping[str, str]) -> dict[str, str]:
    """Return the scripts of a server by file name, for its private directory."""
    text = (HERE / f"{server}.lua").read_text()
    for name, value in {"directory": str(directory), **values}.items():
        text = text.replace(f"{{{name}}}", value)
    return {f"{server}.lua": text, "page.lua": (HERE / "page.lua").read_text()}


@dataclass(frozen=True, slots=True)
class MadeBy:
    """The server that generated a page, according to the page."""

    carrier: str
    software: str
    port: str

    def __str__(self) -> str:
        return f"{self.software or 'an unnamed server'} on port {self.port or 'unknown'} ({self.carrier})"


def fresh_query() -> str:
    """Return a new, unique query. It contains `=`, because CGI would pass a query without it as arguments."""
    return f"n={secrets.token_hex(8)}"


def judged(name: str, query: str, answer: _native.Answer) -> MadeBy:
    """Return the server that generated the page for `query`. Raises ServerError if the page is wrong."""
    status, body = answer["status"], answer["body"]
    if status in ABSENT:
        raise ServerError(
            f"{name} does not serve the dynamic page at {PATH}: status {status}",
            hint="The server lacks the module or program that generates the dynamic page: `make servers` installs "
            f"those of Debian; `dyno servers {name}` lists the settings.",
        )
    if status != HTTPStatus.OK:
        raise ServerError(
            f"the program of {name}'s dynamic page failed: the server answered with status {status}",
            hint="See the server's log, which is shown above if the server has one.",
        )
    if not answer["whole"] or len(body) != _native.page_bytes():
        raise ServerError(
            f"{name}'s dynamic page has {len(body):,} bytes, not {_native.page_bytes():,}",
            hint=f"Another program may answer at {PATH}, or a filter may change the answer.",
        )
    if not _native.page_check(body, PATH, query):
        raise ServerError(
            f"{name}'s dynamic page does not match its request",
            hint=(
                "A cache, a filter or another program may have answered instead. The page must match its request "
                "byte for byte."
            ),
        )
    return MadeBy(
        *(_native.page_shown(body, name) or "" for name in ("CARRIER", "SERVER_SOFTWARE", "SERVER_PORT"))
    )
