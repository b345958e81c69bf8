"""The reference HTTP server as a server under test: the default without another one.

It serves the document tree of the workload from memory and runs as a process of its own, so that its CPU time
is its own.
"""

from __future__ import annotations

import subprocess
import sys
from http import HTTPStatus
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

import serverdyno
from serverdyno import _native
from serverdyno.plan.protocols.options import words
from serverdyno.servers.base import Installed, Settings
from serverdyno.servers.consent import CONSENT_VARIABLE
from serverdyno.servers.dynamic import BEHIND
from serverdyno.servers.reference_model import HttpProcess, HttpServing, Threads
from serverdyno.servers.spoken import TlsSpoken
from serverdyno.servers.tls import CERTIFICATE, KEY
from serverdyno.servers.web import Http2Settings, WebServer

REQUESTS_PATH = "/.serverdyno/requests"


def package_environment(program: str | None) -> dict[str, str]:
    """The environment in which a Python runs this very package; another Python has a Serverdyno of its own."""
    return {} if program is not None else {"PYTHONPATH": str(Path(serverdyno.__file__).parent.parent)}


def package_version(program: Path) -> str:
    """The version of the Serverdyno that a Python has."""
    done = subprocess.run(
        [program, "-m", "serverdyno", "--version"], capture_output=True, text=True, timeout=30, check=False
    )
    return done.stdout.strip() or "unknown"


class ReferenceSettings(HttpServing, Http2Settings):
    """What can be varied."""

    needs_documents: ClassVar[bool] = False  # they are in memory

    dynamic: Literal["native"] = Field(
        default="native", description="How the server makes the dynamic page: by itself."
    )
    threads: Threads | None = Field(
        default=None,
        description="Threads that serve. Default: one for each of `processors`, or a single one.",
    )


class Reference(WebServer[ReferenceSettings]):
    """The driver of `dyno reference http`."""

    name: ClassVar[str] = "reference"
    summary: ClassVar[str] = "Serverdyno's own, from memory"
    debian_package: ClassVar[str | None] = None
    settings_type: ClassVar[type[Settings]] = ReferenceSettings

    @staticmethod
    def installed() -> Installed | None:
        return Installed(f"serverdyno {serverdyno.__version__}", Path(sys.executable))

    @staticmethod
    def version_of(program: Path) -> str:
        """Of the Serverdyno that a Python has."""
        return package_version(program)

    @property
    def threads(self) -> int:
        return self.settings.threads or self.settings.processors or 1

    @property
    def dynamic(self) -> str:
        """By itself, unless every path has the same bytes or servers behind it make the page."""
        return "native" if self.settings.body_bytes is None and not self.backs else "off"

    def command(self) -> list[str]:
        """The same command that a user may run."""
        over_tls = self.settings.over_tls
        given = {
            **self.settings.model_dump(include={*HttpServing.model_fields, *TlsSpoken.model_fields, "http2"}),
            "port": self.port,
            "bind": self.host,
            "threads": self.threads,
            "tls_certificate": self.directory / CERTIFICATE if over_tls else None,
            "tls_key": self.directory / KEY if over_tls else None,
            "tls_port": self.secure_port or None,
            "behind": [back.port for back in self.backs],
        }
        process = HttpProcess.model_validate(given)
        return [str(self.program), "-m", "serverdyno", "reference", "http", *words(process)]

    def environment(self) -> dict[str, str]:
        """So that the child runs this very package, also from a source checkout."""
        token = {CONSENT_VARIABLE: self.consent_token} if self.shows_consent else {}
        return package_environment(self.settings.program) | token

    def process_count(self) -> int:
        """One process with threads."""
        return 1

    def configuration(self) -> dict[str, str]:
        """None: everything is in the command."""
        return {}

    def notes(self) -> list[str]:
        """Where its documents come from, and what it hands on."""
        handed_on = [f"Hands on whatever begins with {BEHIND}, by HTTP/1.0 on kept connections."] * bool(
            self.backs
        )
        return [
            "Serves the workload's own documents from memory; no file is read while it serves.",
            *handed_on,
        ]

    def answers_as_ours(self) -> bool:
        """It has no private file to show: the proof is that only our process listens, and that it counts
        requests.
        """
        answers = [self.asked(REQUESTS_PATH, endpoint) for endpoint in self.endpoints()]
        return all(
            answer["status"] == HTTPStatus.OK and answer["body"].strip().isdigit() for answer in answers
        )

    def requests_served(self) -> int | None:
        """Its own counter, the readiness check's requests and the asking included; None when it has ended."""
        try:
            return int(self.asked(REQUESTS_PATH)["body"])
        except _native.AnswerError:
            return None
