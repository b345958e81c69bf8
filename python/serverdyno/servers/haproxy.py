"""HAProxy with its own complete configuration: round robin over the servers behind it."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import Field

from serverdyno.servers.base import Settings
from serverdyno.servers.local import version_line, worker_user
from serverdyno.servers.proxy import Proxy, ProxySettings
from serverdyno.servers.tls import CERTIFICATE, KEY
from serverdyno.servers.web import IDLE_CONNECTION_TIMEOUT_S, LISTEN_BACKLOG, PROOF_PATH

CONFIGURATION = "haproxy.cfg"
IDENTITY = "server.pem"


class HaproxySettings(ProxySettings):
    max_connections: int = Field(
        default=4096,
        ge=16,
        le=1_000_000,
        description="maxconn: maximum number of client connections; further connections wait.",
    )


class Haproxy(Proxy[HaproxySettings]):
    name: ClassVar[str] = "haproxy"
    program_name: ClassVar[str] = "haproxy"
    summary: ClassVar[str] = "HAProxy, a reverse proxy (see team)"
    debian_package: ClassVar[str | None] = "haproxy"
    settings_type: ClassVar[type[Settings]] = HaproxySettings

    @staticmethod
    def version_of(program: Path) -> str:
        return " ".join(version_line(program, "-v").split()[:3])

    def command(self) -> list[str]:
        """Return the command that runs HAProxy in the foreground, without a master process."""
        return [str(self.program), "-db", "-f", str(self.directory / CONFIGURATION)]

    def process_count(self) -> int:
        return 1

    def furnish(self) -> None:
        """Write certificate and key into one file."""
        super().furnish()
        if self.settings.over_tls:
            identity = self.directory / IDENTITY
            identity.touch(mode=0o600)
            identity.write_text(
                (self.directory / CERTIFICATE).read_text() + (self.directory / KEY).read_text()
            )

    def notes(self) -> list[str]:
        return [
            f"Holds at most {self.settings.max_connections} client connections; further connections wait. "
            f"{self.workers} threads; connections to the servers behind the proxy are reused (http-reuse "
            "safe)."
        ]

    def configuration(self) -> dict[str, str]:
        user, settings = worker_user(), self.settings
        binds = [
            f"bind {self.host}:{port} backlog {LISTEN_BACKLOG}{self._tls() if secure else ''}"
            for port, secure in self.endpoints()
        ]
        lines = [
            "global",
            f"    nbthread {self.workers}",
            f"    maxconn {settings.max_connections}",
            *([] if settings.tls_resumption else ["    tune.ssl.cachesize 0"]),
            *([f"    user {user}", f"    group {user}"] if user else []),
            "defaults",
            "    mode http",
            "    timeout connect 5s",
            "    timeout client 60s",
            "    timeout server 60s",
            f"    timeout http-keep-alive {IDLE_CONNECTION_TIMEOUT_S}s",
            "frontend front",
            *(f"    {bind}" for bind in binds),
            f"    http-request return status 200 content-type text/plain file {self.directory}/{self.proof_file} "
            f"if {{ path {PROOF_PATH} }}",
            *self._consent(),
            "    default_backend backs",
            "backend backs",
            "    balance roundrobin",
            *(f"    server back{number} {back}" for number, back in enumerate(self.backs, 1)),
        ]
        return {CONFIGURATION: "\n".join(lines) + "\n"}

    def _consent(self) -> list[str]:
        """Return the rules that serve the consent.

        Path and document are in files, so that the disclosed configuration has no token.
        """
        if not self.shows_consent:
            return []
        return [
            f"    http-request return status 200 content-type text/plain file {self.directory}/{self.consent_file} "
            f"if {{ path -f {self.directory}/{self.consent_path_file} }}"
        ]

    def _tls(self) -> str:
        settings = self.settings
        tickets = "" if settings.tls_resumption else " no-tls-tickets"
        return (
            f" ssl crt {self.directory}/{IDENTITY} ssl-min-ver TLSv{settings.tls_min_version} "
            f"ssl-max-ver TLSv{settings.tls_max_version}{tickets}"
        )
