"""The reference HTTP server as a server under test: the default if no other server is chosen.

It serves the document tree of the workload from memory. It runs as a separate process, so that its CPU time is
measured separately.
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
    """Return variables that make Python run this package; none if `program` has its own Serverdyno."""
    return {} if program is not None else {"PYTHONPATH": str(Path(serverdyno.__file__).parent.parent)}


def package_version(program: Path) -> str:
    """Return the version of Serverdyno that a Python interpreter has."""
    done = subprocess.run(
        [program, "-m", "serverdyno", "--version"], capture_output=True, text=True, timeout=30, check=False
    )
    return done.stdout.strip() or "unknown"


class ReferenceSettings(HttpServing, Http2Settings):
    needs_documents: ClassVar[bool] = False  # the documents are in memory

    dynamic: Literal["native"] = Field(
        default="native", description="How the server generates the dynamic page: always inside the server."
    )
    threads: Threads | None = Field(
        default=None,
        description="Number of threads that handle requests. Default: one per CPU of `processors`, or one "
        "thread if `processors` is not set.",
    )


class Reference(WebServer[ReferenceSettings]):
    name: ClassVar[str] = "reference"
    summary: ClassVar[str] = "Serverdyno's own web server, serving from memory"
    debian_package: ClassVar[str | None] = None
    settings_type: ClassVar[type[Settings]] = ReferenceSettings

    @staticmethod
    def installed() -> Installed | None:
        return Installed(f"serverdyno {serverdyno.__version__}", Path(sys.executable))

    @staticmethod
    def version_of(program: Path) -> str:
        return package_version(program)

    @property
    def threads(self) -> int:
        return self.settings.threads or self.settings.processors or 1

    @property
    def dynamic(self) -> str:
        """Return "native" if the server generates the page: not with fixed bodies, nor with servers behind it."""
        return "native" if self.settings.body_bytes is None and not self.backs else "off"

    def command(self) -> list[str]:
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
        token = {CONSENT_VARIABLE: self.consent_token} if self.shows_consent else {}
        return package_environment(self.settings.program) | token

    def process_count(self) -> int:
        return 1

    def configuration(self) -> dict[str, str]:
        return {}

    def notes(self) -> list[str]:
        handed_on = [
            f"Forwards all paths that begin with {BEHIND}, with HTTP/1.0 on kept-alive connections."
        ] * bool(self.backs)
        return [
            "Serves the workload's documents from memory; it reads no file under load.",
            *handed_on,
        ]

    def answers_as_ours(self) -> bool:
        """Return whether each port returns a request count. The server has no private file as a proof."""
        answers = [self.asked(REQUESTS_PATH, endpoint) for endpoint in self.endpoints()]
        return all(
            answer["status"] == HTTPStatus.OK and answer["body"].strip().isdigit() for answer in answers
        )

    def requests_served(self) -> int | None:
        """Return the server's own count, including the readiness check's requests; None if the server has ended."""
        try:
            return int(self.asked(REQUESTS_PATH)["body"])
        except _native.AnswerError:
            return None
