"""lighttpd with its own complete configuration: no file in /etc/lighttpd is read."""

from __future__ import annotations

import resource
import shutil
import signal
import time
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from serverdyno.servers import dynamic
from serverdyno.servers.base import Settings
from serverdyno.servers.consent import CONSENT_PATH
from serverdyno.servers.local import POLL_S, version_line, worker_user
from serverdyno.servers.process import LOG_NAME, ServerProcess
from serverdyno.servers.tls import CERTIFICATE, KEY
from serverdyno.servers.web import (
    ACCESS_LOG,
    DYNAMIC_MEANING,
    IDLE_CONNECTION_TIMEOUT_S,
    LISTEN_BACKLOG,
    Dynamic,
    Http2Settings,
    WebServer,
)

CONFIGURATION = "lighttpd.conf"
LOG_WRITTEN_S = 5.0  # mod_accesslog writes its buffer when the buffer is full, and every 4 s
FILES_PER_CONNECTION = 3  # lighttpd's own rule: a socket, a document, and one to spare


PAGE_MODULES = {"cgi": ['"mod_cgi"'], "fastcgi": ['"mod_fastcgi"'], "in-process": ['"mod_magnet"']}


class LighttpdSettings(Http2Settings):
    workers: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        description="Number of server processes. Default: one per CPU. 1: a single process, which is "
        "lighttpd's default.",
    )
    max_connections: int = Field(
        default=4096,
        ge=1,
        le=300_000,
        description="server.max-connections: maximum number of connections per process; further "
        "connections wait in the listen queue.",
    )
    access_log: bool = Field(
        default=False,
        description="Write an access log, one line per request. Default: off, as in VeriTest "
        "2003, appendix C.",
    )
    keep_alive: bool = Field(
        default=True,
        description="Keep connections open after a request. Off: server.max-keep-alive-requests 0.",
    )
    keep_alive_requests: int = Field(
        default=1000,
        ge=1,
        le=65535,
        description="server.max-keep-alive-requests: maximum number of requests per connection.",
    )
    dynamic: Dynamic = Field(default="off", description=DYNAMIC_MEANING)
    network_backend: Literal["sendfile", "writev", "write"] = Field(
        default="sendfile",
        description="server.network-backend: how documents are sent. lighttpd's default is sendfile.",
    )
    stat_cache_engine: Literal["simple", "inotify", "disable"] = Field(
        default="simple",
        description="server.stat-cache-engine: how file attributes are cached. simple: for 1 s.",
    )


class Lighttpd(WebServer[LighttpdSettings]):
    name: ClassVar[str] = "lighttpd"
    program_name: ClassVar[str] = "lighttpd"
    summary: ClassVar[str] = "lighttpd"
    debian_package: ClassVar[str | None] = "lighttpd"
    settings_type: ClassVar[type[Settings]] = LighttpdSettings

    @staticmethod
    def version_of(program: Path) -> str:
        return version_line(program, "-v").partition(" - ")[0]

    @property
    def workers(self) -> int:
        return self.settings.workers or self.processors

    def command(self) -> list[str]:
        return self.beside_the_page([str(self.program), "-D", "-f", str(self.directory / CONFIGURATION)])

    def process_count(self) -> int:
        """Return the number of processes: one, or a parent and its workers; and the page's program."""
        return (1 if self.workers == 1 else 1 + self.workers) + (self.dynamic == "fastcgi")

    def keeps_access_log(self) -> bool:
        return self.settings.access_log

    def access_log_bytes(self, process: ServerProcess) -> int:
        """Return the size of the access log after SIGHUP, at which all processes write their buffers."""
        told = self._logs_reopened() + self.workers
        process.signal(signal.SIGHUP)
        deadline = time.monotonic() + LOG_WRITTEN_S
        while self._logs_reopened() < told and process.running() and time.monotonic() < deadline:
            time.sleep(POLL_S)
        return super().access_log_bytes(process)

    def _logs_reopened(self) -> int:
        return (self.directory / LOG_NAME).read_bytes().count(b"logfiles cycled")

    def prepare(self) -> None:
        """Create the access log, because lighttpd opens it only after it has dropped root privileges.

        For the same reason, errors go to the server's output.
        """
        super().prepare()
        user = worker_user()
        if self.settings.access_log:
            log = self.directory / ACCESS_LOG
            log.touch()
            if user:
                shutil.chown(log, user)

    def notes(self) -> list[str]:
        return [
            f"Holds at most {self.workers} x {self.settings.max_connections} connections; further connections wait."
        ]

    def configuration(self) -> dict[str, str]:
        lines = [*self._process_lines(), *self._connection_lines(), *self._content_lines()]
        scripts = {}
        if self.dynamic == "in-process":
            software = self.in_use.version.split()[0] if self.in_use else self.name
            scripts = dynamic.scripts("lighttpd", self.directory, {"software": software})
        return {CONFIGURATION: "\n".join(lines) + "\n", **scripts}

    def _process_lines(self) -> list[str]:
        user = worker_user()
        hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        files = min(FILES_PER_CONNECTION * self.settings.max_connections + 64, hard_limit)
        modules = ['"mod_alias"', *(['"mod_accesslog"'] if self.settings.access_log else [])]
        modules += ['"mod_openssl"'] if self.settings.over_tls else []
        modules += PAGE_MODULES.get(self.dynamic, [])
        http2 = "enable" if self.settings.http2 else "disable"
        return [
            f"server.modules = ({', '.join(modules)})",
            *([f'server.username = "{user}"', f'server.groupname = "{user}"'] if user else []),
            f"server.max-worker = {0 if self.workers == 1 else self.workers}",
            f"server.max-fds = {files}",
            f'server.upload-dirs = ("{self.directory}")',
            f'server.feature-flags = ("server.h2proto" => "{http2}", "server.h2c" => "{http2}")',
        ]

    def _connection_lines(self) -> list[str]:
        settings = self.settings
        return [
            f'server.bind = "{self.host}"',
            f"server.port = {self.port}",
            f"server.listen-backlog = {LISTEN_BACKLOG}",
            f"server.max-connections = {settings.max_connections}",
            f"server.max-keep-alive-requests = {settings.keep_alive_requests if settings.keep_alive else 0}",
            f"server.max-keep-alive-idle = {IDLE_CONNECTION_TIMEOUT_S}",
            f'server.network-backend = "{settings.network_backend}"',
            f'server.stat-cache-engine = "{settings.stat_cache_engine}"',
            *self._tls(),
        ]

    def _tls(self) -> list[str]:
        settings = self.settings
        if not settings.over_tls:
            return []
        without_tickets = [] if settings.tls_resumption else ['"Options" => "-SessionTicket"']
        commands = [
            f'"MinProtocol" => "TLSv{settings.tls_min_version}"',
            f'"MaxProtocol" => "TLSv{settings.tls_max_version}"',
            *without_tickets,
        ]
        enabled = ['ssl.engine = "enable"']
        if self.secure_port:
            enabled = [f'$SERVER["socket"] == "{self.host}:{self.secure_port}" {{ ssl.engine = "enable" }}']
        return [
            *enabled,
            f'ssl.pemfile = "{self.directory}/{CERTIFICATE}"',
            f'ssl.privkey = "{self.directory}/{KEY}"',
            f"ssl.openssl.ssl-conf-cmd = ({', '.join(commands)})",
        ]

    def _content_lines(self) -> list[str]:
        log = [
            f'accesslog.filename = "{self.directory}/{ACCESS_LOG}"',
            'accesslog.format = "%h %l %u %t \\"%r\\" %>s %b"',
        ]
        return [
            f'server.document-root = "{self.documents}"',
            f'alias.url = ("/.serverdyno/" => "{self.public_directory}/")',
            *(
                [f'alias.url += ("{CONSENT_PATH}" => "{self.consent_directory}/")']
                if self.shows_consent
                else []
            ),
            'mimetype.assign = (".html" => "text/html", ".htm" => "text/html", ".gif" => "image/gif")',
            *(log if self.settings.access_log else []),
            *self._page(),
        ]

    def _page(self) -> list[str]:
        here = f'$HTTP["url"] == "{dynamic.PATH}"'
        if self.dynamic == "cgi":
            program = self.directory / dynamic.COPY
            return [
                f'alias.url += ("{dynamic.PATH}" => "{program}")',
                f'{here} {{ cgi.assign = ("" => "") }}',
            ]
        if self.dynamic == "fastcgi":
            socket = f'"socket" => "{self.directory}/{dynamic.SOCKET}", "check-local" => "disable"'
            return [f'fastcgi.server = ("{dynamic.PATH}" => (({socket})))']
        if self.dynamic == "in-process":
            return [f'{here} {{ magnet.attract-raw-url-to = ("{self.directory}/lighttpd.lua") }}']
        return []
