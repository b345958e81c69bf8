"""nginx with its own complete configuration: no file in /etc/nginx is read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from serverdyno.servers import dynamic
from serverdyno.servers.base import Settings
from serverdyno.servers.consent import CONSENT_PATH
from serverdyno.servers.local import ERROR_LOG, version_line, worker_user
from serverdyno.servers.tls import CERTIFICATE, KEY, SESSION_CACHE_BYTES, SESSION_LIFETIME_S
from serverdyno.servers.web import (
    ACCESS_LOG,
    DYNAMIC_MEANING,
    GZIP_MIN_BYTES,
    IDLE_CONNECTION_TIMEOUT_S,
    LISTEN_BACKLOG,
    PROOF_PATH,
    Compressing,
    Http2Settings,
    WebServer,
    on_off,
)

CONFIGURATION = "nginx.conf"
# nginx creates these directories when it starts. The compiled-in paths belong to the system's own nginx.
TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
LUA = [f"/usr/lib/nginx/modules/{name}.so" for name in ("ndk_http_module", "ngx_http_lua_module")]
PAGE_UPSTREAM = """\
upstream page {{
    server "unix:{socket}";
    keepalive 64;
}}"""
PAGE_PARAMETERS = {
    "SERVER_SOFTWARE": "nginx/$nginx_version",
    "SERVER_NAME": "$server_addr",
    "SERVER_PORT": "$server_port",
    "SERVER_PROTOCOL": "$server_protocol",
    "HTTPS": "$https if_not_empty",
    "REQUEST_METHOD": "$request_method",
    "SCRIPT_NAME": "$uri",
    "QUERY_STRING": "$query_string",
}


class NginxSettings(Compressing, Http2Settings):
    workers: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        description="worker_processes: the number of workers. Default: one per CPU of the server.",
    )
    worker_connections: int = Field(
        default=4096,
        ge=16,
        le=1_000_000,
        description=(
            "worker_connections: maximum number of connections per worker, including its listening socket."
        ),
    )
    access_log: bool = Field(
        default=False,
        description="Write an access log in the combined log format, one line per request. Default: off, as "
        "in VeriTest 2003, appendix C.",
    )
    keep_alive: bool = Field(
        default=True, description="Keep connections open after a request. Off: keepalive_timeout 0."
    )
    keep_alive_requests: int = Field(
        default=1000,
        ge=1,
        description="keepalive_requests: maximum number of requests per connection. This is nginx's default.",
    )
    sendfile: bool = Field(
        default=True, description="sendfile: send documents with sendfile(2), as Debian's configuration does."
    )
    tcp_nopush: bool = Field(
        default=True,
        description="tcp_nopush: with sendfile, send the head and the start of the body in one segment, as "
        "Debian's configuration does.",
    )
    dynamic: Literal["off", "fastcgi", "in-process"] = Field(
        default="off",
        description=f"{DYNAMIC_MEANING} nginx has no CGI; in-process needs Debian's libnginx-mod-http-lua.",
    )
    open_file_cache: bool = Field(
        default=False,
        description="open_file_cache: keep up to 10,000 files open, and check them every 60 s. nginx's "
        "default is off.",
    )

    gzip_static: bool = Field(
        default=False,
        description="gzip_static: send FILE.gz instead of FILE if it exists and the client accepts gzip.",
    )
    tcp_nodelay: bool = Field(
        default=True, description="tcp_nodelay: send small segments without delay, which is nginx's default."
    )
    multi_accept: bool = Field(
        default=False,
        description="multi_accept: let a worker accept all waiting connections at once. "
        "nginx's default is off.",
    )
    reuse_port: bool = Field(
        default=False, description="Give each worker its own listening socket (listen ... reuseport)."
    )
    aio: Literal["off", "threads", "on"] = Field(
        default="off",
        description="aio: read files in a pool of threads, or with the kernel's asynchronous reads.",
    )

    @model_validator(mode="after")
    def speaks_one_version_in_the_clear(self) -> Self:
        """Refuse HTTP/2 without TLS: without ALPN, a port of nginx before 1.25 supports only one version of HTTP."""
        if self.http2 and not self.over_tls:
            raise ValueError(
                "http2 requires tls: without TLS, a port of nginx speaks either HTTP/1 or HTTP/2, not both"
            )
        return self


class Nginx(WebServer[NginxSettings]):
    name: ClassVar[str] = "nginx"
    program_name: ClassVar[str] = "nginx"
    summary: ClassVar[str] = "nginx"
    debian_package: ClassVar[str | None] = "nginx-light"
    settings_type: ClassVar[type[Settings]] = NginxSettings
    crash_words: ClassVar[re.Pattern[str] | None] = re.compile("exited on signal")

    @staticmethod
    def version_of(program: Path) -> str:
        return version_line(program, "-v").removeprefix("nginx version: ")

    @property
    def workers(self) -> int:
        return self.settings.workers or self.processors

    def command(self) -> list[str]:
        """Return the command, with `-e` from nginx 1.19.5 on: without it nginx first opens the system's error log."""
        command = [
            str(self.program),
            *("-p", str(self.directory)),
            *("-e", str(self.directory / ERROR_LOG)),
            *("-c", str(self.directory / CONFIGURATION)),
            *("-g", "daemon off;"),
        ]
        return self.beside_the_page(command)

    def process_count(self) -> int:
        """Return the number of processes: the master, its workers, and the page's program."""
        return 1 + self.workers + (self.dynamic == "fastcgi")

    def keeps_access_log(self) -> bool:
        return self.settings.access_log

    def notes(self) -> list[str]:
        return [
            f"Holds at most {self.workers} x {self.settings.worker_connections} connections; further ones "
            "are closed."
        ]

    def configuration(self) -> dict[str, str]:
        user = worker_user()
        lines = [
            *(f'load_module "{module}";' for module in LUA if self.dynamic == "in-process"),
            *([f"user {user};"] if user else []),
            f"worker_processes {self.workers};",
            f'pid "{self.directory}/nginx.pid";',
            f'error_log "{self.directory}/{ERROR_LOG}" warn;',
            f"events {{ worker_connections {self.settings.worker_connections}; "
            f"multi_accept {on_off(self.settings.multi_accept)}; }}",
            "http {",
            *(f"    {line}" for line in [*self._http(), *self._server()]),
            "}",
        ]
        scripts = dynamic.scripts("nginx", self.directory, {}) if self.dynamic == "in-process" else {}
        return {CONFIGURATION: "\n".join(lines) + "\n", **scripts}

    def _http(self) -> list[str]:
        settings = self.settings
        access_log = f'"{self.directory}/{ACCESS_LOG}" common' if settings.access_log else "off"
        cache = [
            "open_file_cache max=10000 inactive=60s;",
            "open_file_cache_valid 60s;",
            "open_file_cache_errors on;",
        ]
        return [
            "types { text/html html htm; image/gif gif; }",
            "default_type application/octet-stream;",
            *(f'{name}_temp_path "{self.directory}/{name}";' for name in TEMPORARY),
            'log_format common "$remote_addr - $remote_user [$time_local] \\"$request\\" $status $body_bytes_sent'
            f'{self._session_in_log()}";',
            f"access_log {access_log};",
            f"sendfile {on_off(settings.sendfile)};",
            f"tcp_nopush {on_off(settings.tcp_nopush)};",
            f"tcp_nodelay {on_off(settings.tcp_nodelay)};",
            f"aio {settings.aio};",
            *self._compression(),
            f"keepalive_timeout {IDLE_CONNECTION_TIMEOUT_S if settings.keep_alive else 0};",
            f"keepalive_requests {settings.keep_alive_requests};",
            *(cache if settings.open_file_cache else ["open_file_cache off;"]),
            *self._backs(),
            *([f'lua_package_path "{self.directory}/?.lua;;";'] if self.dynamic == "in-process" else []),
            *(
                PAGE_UPSTREAM.format(socket=self.directory / dynamic.SOCKET).splitlines()
                * (self.dynamic == "fastcgi")
            ),
        ]

    def _compression(self) -> list[str]:
        """Return the rules for compressing text/html, which is nginx's default."""
        level = self.settings.gzip_level
        return [
            f"gzip_static {on_off(self.settings.gzip_static)};",
            f"gzip {on_off(level > 0)};",
            *([f"gzip_comp_level {level};", f"gzip_min_length {GZIP_MIN_BYTES};"] if level else []),
        ]

    def _backs(self) -> list[str]:
        if not self.backs:
            return []
        servers = [f"    server {back};" for back in self.backs]
        return ["upstream backs {", *servers, "    keepalive 64;", "}"]

    def _session_in_log(self) -> str:
        """Return the log's fields for TLS: session resumed (`r` or `.`), number of the request on its connection."""
        return " $ssl_session_reused $connection_requests" if self.settings.over_tls else ""

    def _tls(self) -> list[str]:
        settings = self.settings
        if not settings.over_tls:
            return []
        cache = f"shared:tls:{SESSION_CACHE_BYTES >> 20}m" if settings.tls_resumption else "off"
        return [
            f'ssl_certificate "{self.directory}/{CERTIFICATE}";',
            f'ssl_certificate_key "{self.directory}/{KEY}";',
            f"ssl_protocols {' '.join(f'TLSv{version}' for version in settings.tls_versions)};",
            f"ssl_session_cache {cache};",
            f"ssl_session_timeout {SESSION_LIFETIME_S}s;",
            f"ssl_session_tickets {on_off(settings.tls_resumption)};",
        ]

    def _server(self) -> list[str]:
        version = " http2" if self.settings.http2 else ""
        listen = [
            f"listen {self.host}:{port}{f' ssl{version}' if secure else ''} backlog={LISTEN_BACKLOG}"
            f"{' reuseport' if self.settings.reuse_port else ''};"
            for port, secure in self.endpoints()
        ]
        return [
            "server {",
            *(f"    {line}" for line in listen),
            *(f"    {line}" for line in self._tls()),
            f'    root "{self.documents}";',
            f'    location = {PROOF_PATH} {{ alias "{self.public_directory}/proof"; }}',
            *self._consent(),
            *(f"    {line}" for line in self._page()),
            "}",
        ]

    def _consent(self) -> list[str]:
        served = f'    location {CONSENT_PATH} {{ alias "{self.consent_directory}/"; }}'
        return [served] if self.shows_consent else []

    def _page(self) -> list[str]:
        if self.backs:
            passed = [
                "proxy_pass http://backs;",
                "proxy_http_version 1.1;",
                'proxy_set_header Connection "";',
            ]
            return [f"location {dynamic.BEHIND} {{", *(f"    {line}" for line in passed), "}"]
        if self.dynamic == "in-process":
            return [f'location = {dynamic.PATH} {{ content_by_lua_file "{self.directory}/nginx.lua"; }}']
        if self.dynamic == "fastcgi":
            parameters = [f"    fastcgi_param {name} {value};" for name, value in PAGE_PARAMETERS.items()]
            passed = ["    fastcgi_pass page;", "    fastcgi_keep_conn on;"]
            return [f"location = {dynamic.PATH} {{", *passed, *parameters, "}"]
        return []
