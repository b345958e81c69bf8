"""H2O with its own complete configuration: no file in /etc/h2o is read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from serverdyno.servers import dynamic
from serverdyno.servers.base import Settings
from serverdyno.servers.consent import CONSENT_PATH
from serverdyno.servers.local import ERROR_LOG, version_line, worker_user
from serverdyno.servers.tls import CERTIFICATE, KEY
from serverdyno.servers.web import (
    ACCESS_LOG,
    DYNAMIC_MEANING,
    IDLE_CONNECTION_TIMEOUT_S,
    WebServer,
    WebSettings,
)

CONFIGURATION = "h2o.conf"


class H2oSettings(WebSettings):
    dynamic: Literal["off", "fastcgi"] = Field(
        default="off", description=f"{DYNAMIC_MEANING} Here H2O supports only FastCGI."
    )
    workers: int | None = Field(
        default=None,
        ge=1,
        le=256,
        description="num-threads: the number of threads. Default: one per CPU of the server.",
    )
    max_connections: int = Field(
        default=4096,
        ge=16,
        le=1_000_000,
        description="max-connections: maximum number of open connections; further connections wait.",
    )
    access_log: bool = Field(
        default=False,
        description="Write an access log in the combined log format, one line per request. Default: off, as "
        "in VeriTest 2003, appendix C.",
    )
    tls_max_version: Literal["1.3"] = Field(
        default="1.3", description="The newest version of TLS. H2O has no setting that limits it."
    )


class H2o(WebServer[H2oSettings]):
    name: ClassVar[str] = "h2o"
    program_name: ClassVar[str] = "h2o"
    summary: ClassVar[str] = "H2O"
    debian_package: ClassVar[str | None] = "h2o"
    settings_type: ClassVar[type[Settings]] = H2oSettings
    crash_words: ClassVar[re.Pattern[str] | None] = re.compile("received fatal signal")

    @staticmethod
    def version_of(program: Path) -> str:
        return version_line(program, "-v")

    @property
    def workers(self) -> int:
        return self.settings.workers or self.processors

    def command(self) -> list[str]:
        return self.beside_the_page([str(self.program), "-c", str(self.directory / CONFIGURATION)])

    def process_count(self) -> int:
        """Return the number of processes, without the backtrace helper: one with threads, and the page's program."""
        return 1 + (self.dynamic == "fastcgi")

    def keeps_access_log(self) -> bool:
        return self.settings.access_log

    def notes(self) -> list[str]:
        return [
            f"Holds at most {self.settings.max_connections} connections; further connections wait. {self.workers} "
            "threads. "
            "Over TLS it also speaks HTTP/2."
        ]

    def configuration(self) -> dict[str, str]:
        user, settings = worker_user(), self.settings
        lines = [
            *([f"user: {user}"] if user else []),
            f"num-threads: {self.workers}",
            f"max-connections: {settings.max_connections}",
            f"http1-request-timeout: {IDLE_CONNECTION_TIMEOUT_S}",
            f'error-log: "{self.directory}/{ERROR_LOG}"',
            *([f'access-log: "{self.directory}/{ACCESS_LOG}"'] if settings.access_log else []),
            *([] if settings.tls_resumption else ["ssl-session-resumption:", "  mode: off"]),
        ]
        for port, secure in self.endpoints():
            lines += ["listen:", f"  host: {self.host}", f"  port: {port}", *(self._tls() if secure else [])]
        lines += ["hosts:", "  default:", "    paths:", *self._paths()]
        return {CONFIGURATION: "\n".join(lines) + "\n"}

    def _tls(self) -> list[str]:
        return [
            "  ssl:",
            f'    certificate-file: "{self.directory}/{CERTIFICATE}"',
            f'    key-file: "{self.directory}/{KEY}"',
            f"    minimum-version: TLSv{self.settings.tls_min_version}",
        ]

    def _consent(self) -> list[str]:
        served = [f'      "{CONSENT_PATH.rstrip("/")}":', f'        file.dir: "{self.consent_directory}"']
        return served if self.shows_consent else []

    def _paths(self) -> list[str]:
        page = [
            f'      "{dynamic.PATH}":',
            "        fastcgi.connect:",
            f'          port: "{self.directory}/{dynamic.SOCKET}"',
            "          type: unix",
            "        setenv:",
            f'          SCRIPT_NAME: "{dynamic.PATH}"',
        ]
        return [
            '      "/.serverdyno":',
            f'        file.dir: "{self.public_directory}"',
            *self._consent(),
            *(page if self.dynamic == "fastcgi" else []),
            '      "/":',
            f'        file.dir: "{self.documents}"',
        ]
