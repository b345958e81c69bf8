"""Apache httpd with its own complete configuration: no file in /etc/apache2 is read.

The tunings of VeriTest 2003, appendix C, are settings here: no access log, MaxRequestsPerChild 0 (today
MaxConnectionsPerChild) and MMapFile over the whole tree. All workers are started at the beginning, and idle workers
are kept, so that no level includes the cost of forks.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from serverdyno.servers import dynamic
from serverdyno.servers.base import Settings
from serverdyno.servers.consent import CONSENT_PATH
from serverdyno.servers.dynamic import apache_module
from serverdyno.servers.local import ERROR_LOG, version_line, worker_user
from serverdyno.servers.tls import CERTIFICATE, KEY, SESSION_CACHE_BYTES, SESSION_LIFETIME_S
from serverdyno.servers.web import (
    ACCESS_LOG,
    DYNAMIC_MEANING,
    IDLE_CONNECTION_TIMEOUT_S,
    LISTEN_BACKLOG,
    Compressing,
    Dynamic,
    Http2Settings,
    WebServer,
    on_off,
)

MODULES = Path("/usr/lib/apache2/modules")
CONFIGURATION = "httpd.conf"
MMAP_LIST = "mmap-files.conf"


class ApacheSettings(Compressing, Http2Settings):
    mpm: Literal["prefork", "worker", "event"] = Field(
        default="event", description="Multi-processing module."
    )
    workers: int = Field(
        default=512,
        ge=1,
        le=20_000,
        description="MaxRequestWorkers: maximum number of requests served at the same time. All workers "
        "start with the server. With keep-alive and prefork or worker, further connections "
        "wait until one ends.",
    )
    threads_per_child: int = Field(
        default=64,
        ge=1,
        le=1000,
        description="ThreadsPerChild for the MPMs worker and event; at most `workers`.",
    )
    access_log: bool = Field(
        default=False,
        description="Write an access log in the common log format, one line per request. Default: off, as "
        "in VeriTest 2003, appendix C.",
    )
    keep_alive: bool = Field(default=True, description="KeepAlive.")
    max_keep_alive_requests: int = Field(
        default=1000,
        ge=0,
        description="MaxKeepAliveRequests: maximum number of requests per connection; 0: no limit. "
        "Apache's default is 100. The default here is the same as for nginx and lighttpd, so that the servers do not "
        "differ in this setting.",
    )
    max_connections_per_child: int = Field(
        default=0,
        ge=0,
        description="MaxConnectionsPerChild: replace a child after this many connections; 0: never.",
    )
    mmap_file_cache: bool = Field(
        default=False,
        description="mod_file_cache: map every document into memory at start (MMapFile; VeriTest 2003, "
        "appendix C).",
    )
    sendfile: bool = Field(
        default=False, description="EnableSendfile: send documents with sendfile(2). Apache's default is off."
    )
    dynamic: Dynamic | Literal["native"] = Field(
        default="off",
        description=f"{DYNAMIC_MEANING} `native` builds a module in C with apxs (Debian's apache2-dev).",
    )
    follow_symlinks: bool = Field(
        default=True,
        description="Options FollowSymLinks: follow links. Off: Apache checks each part of a path for "
        "links, for every request.",
    )
    etag: bool = Field(
        default=True,
        description="FileETag MTime Size: send an ETag, as Apache does by default. Off: send none.",
    )
    listen_buckets_ratio: int = Field(
        default=0,
        ge=0,
        le=1024,
        description="ListenCoresBucketsRatio: the number of CPUs per listening socket; 0: one socket for "
        "all.",
    )
    enable_mmap: bool = Field(default=True, description="EnableMMAP: map documents into memory to send them.")

    @property
    def threads(self) -> int:
        """Return the number of serving threads per child."""
        return 1 if self.mpm == "prefork" else min(self.threads_per_child, self.workers)

    @property
    def children(self) -> int:
        return self.workers // self.threads

    @model_validator(mode="after")
    def http2_needs_threads(self) -> Self:
        """Refuse HTTP/2 with prefork, as mod_http2 does, because it serves a connection's streams with threads."""
        if self.http2 and self.mpm == "prefork":
            raise ValueError('http2 needs mpm = "event" or "worker"')
        return self

    @model_validator(mode="after")
    def whole_children(self) -> Self:
        """Refuse numbers of workers that Apache would silently round down."""
        if self.workers % self.threads:
            raise ValueError(
                f"workers ({self.workers}) must be a multiple of threads_per_child ({self.threads})"
            )
        return self


class Apache(WebServer[ApacheSettings]):
    name: ClassVar[str] = "apache"
    program_name: ClassVar[str] = "apache2"
    summary: ClassVar[str] = "Apache httpd 2.4"
    debian_package: ClassVar[str | None] = "apache2"
    settings_type: ClassVar[type[Settings]] = ApacheSettings
    crash_words: ClassVar[re.Pattern[str] | None] = re.compile("exit signal")
    apxs: ClassVar[str] = "apxs"

    @staticmethod
    def version_of(program: Path) -> str:
        return version_line(program, "-v").removeprefix("Server version: ")

    def command(self) -> list[str]:
        """Return the command that runs Apache in the foreground. Startup errors go to the server's output."""
        command = [str(self.program), "-f", str(self.directory / CONFIGURATION), "-DFOREGROUND"]
        return self.beside_the_page(command)

    def process_count(self) -> int:
        """Return the number of processes: the parent, its children, and the CGI daemon or the page's program."""
        more = self.dynamic == "fastcgi" or (self.dynamic == "cgi" and self.settings.mpm != "prefork")
        return 1 + self.settings.children + more

    def keeps_access_log(self) -> bool:
        return self.settings.access_log

    def notes(self) -> list[str]:
        settings = self.settings
        shape = f"{settings.children} processes x {settings.threads} threads, all started before the load"
        waiting = (
            "A kept-alive connection occupies its worker until the connection closes; further connections "
            "wait."
            if settings.keep_alive and settings.mpm != "event"
            else "Further requests wait in the listen queue."
        )
        return [f"Serves at most {settings.workers} requests at the same time ({shape}). {waiting}"]

    def configuration(self) -> dict[str, str]:
        """Return `httpd.conf`, and the list of mapped files if requested."""
        lines = [*self._server(), *self._processing_module(), *self._connections(), *self._content()]
        files = {CONFIGURATION: "\n".join(lines) + "\n"}
        if self.settings.mmap_file_cache:
            documents = sorted(path for path in self.documents.rglob("*") if path.is_file())
            files[MMAP_LIST] = "".join(f'MMapFile "{path}"\n' for path in documents)
        if self.dynamic == "in-process":
            files |= dynamic.scripts("apache", self.directory, {})
        if self.dynamic == "native":
            files[apache_module.SOURCE.name] = apache_module.SOURCE.read_text(encoding="utf-8")
        return files

    def furnish(self) -> None:
        """Build the native module if it generates the page, then write the files. Raises ServerError."""
        if self.dynamic == "native":
            apache_module.build(self.directory, self.apxs)
        super().furnish()

    def _server(self) -> list[str]:
        user = worker_user()
        modules = [f"mpm_{self.settings.mpm}", "authz_core", "mime", "alias"]
        if self.settings.mmap_file_cache:
            modules.append("file_cache")
        if self.settings.over_tls:
            modules += ["socache_shmcb", "ssl"]
        if self.settings.gzip_level:
            modules += ["filter", "deflate"]
        modules += self._page_modules()
        if self.settings.http2:
            modules.append("http2")
        return [
            f'ServerRoot "{self.directory}"',
            f'DefaultRuntimeDir "{self.directory}"',
            f'PidFile "{self.directory}/httpd.pid"',
            *(f'LoadModule {module}_module "{MODULES}/mod_{module}.so"' for module in modules),
            *(
                [f'LoadModule dyno_page_module "{self.directory}/{apache_module.BUILT}"']
                * (self.dynamic == "native")
            ),
            *([f"User {user}", f"Group {user}"] if user else []),
            f"ServerName {self.host}",
            # A page's SERVER_PORT is then the port of the connection, even if the Host header has another port.
            "UseCanonicalName On",
            "UseCanonicalPhysicalPort On",
            *(f"Listen {self.host}:{port}" for port in self.ports()),
            f"ListenBacklog {LISTEN_BACKLOG}",
            *(
                [f"ListenCoresBucketsRatio {buckets}"]
                if (buckets := self.settings.listen_buckets_ratio)
                else []
            ),
            f'ErrorLog "{self.directory}/{ERROR_LOG}"',
            "LogLevel warn",
            *self._versions(),
            *self._tls(),
        ]

    def _versions(self) -> list[str]:
        if not self.settings.http2:
            return []
        secure = "h2 h2c" if self.settings.also_clear else "h2"
        return [
            f"Protocols {secure if self.settings.over_tls or self.settings.also_clear else 'h2c'} http/1.1"
        ]

    def _tls(self) -> list[str]:
        settings = self.settings
        if not settings.over_tls:
            return []
        cache = (
            f"shmcb:{self.directory}/sessions({SESSION_CACHE_BYTES})" if settings.tls_resumption else "none"
        )
        host = self.secure_port or self.port
        return [
            f'SSLSessionCache "{cache}"',
            f"SSLSessionCacheTimeout {SESSION_LIFETIME_S}",
            f"<VirtualHost {self.host}:{host}>",
            "SSLEngine on",
            f'SSLCertificateFile "{self.directory}/{CERTIFICATE}"',
            f'SSLCertificateKeyFile "{self.directory}/{KEY}"',
            f"SSLProtocol -all {' '.join(f'+TLSv{version}' for version in settings.tls_versions)}",
            f"SSLSessionTickets {on_off(settings.tls_resumption)}",
            "</VirtualHost>",
        ]

    def _page_modules(self) -> list[str]:
        by_cgi = "cgi" if self.settings.mpm == "prefork" else "cgid"
        return {"cgi": [by_cgi], "fastcgi": ["proxy", "proxy_fcgi"], "in-process": ["lua"]}.get(
            self.dynamic, []
        )

    def _page(self) -> list[str]:
        program = self.directory / dynamic.COPY
        if self.dynamic == "cgi":
            return [
                *([f'ScriptSock "{self.directory}/cgid.sock"'] if self.settings.mpm != "prefork" else []),
                f'ScriptAlias "{dynamic.PATH}" "{program}"',
                f'<Directory "{self.directory}">',
                f'    <Files "{dynamic.COPY}">',
                "        Require all granted",
                "    </Files>",
                "</Directory>",
            ]
        if self.dynamic == "fastcgi":
            back = f"unix:{self.directory}/{dynamic.SOCKET}|fcgi://localhost{dynamic.PATH}"
            return [f'ProxyPass "{dynamic.PATH}" "{back}" enablereuse=on']
        if self.dynamic == "in-process":
            return [
                "LuaScope thread",
                "LuaCodeCache forever",
                f'LuaMapHandler "^{dynamic.PATH}$" "{self.directory}/apache.lua" handle',
            ]
        if self.dynamic == "native":
            return [
                f'<LocationMatch "^{dynamic.PATH}$">',
                "    SetHandler dyno-page",
                "    Require all granted",
                "</LocationMatch>",
            ]
        return []

    def _processing_module(self) -> list[str]:
        settings = self.settings
        common = [
            f"ServerLimit {settings.children}",
            f"StartServers {settings.children}",
            f"MaxRequestWorkers {settings.workers}",
            f"MaxConnectionsPerChild {settings.max_connections_per_child}",
        ]
        if settings.mpm == "prefork":
            return [*common, "MinSpareServers 1", f"MaxSpareServers {settings.workers}"]
        return [
            *common,
            f"ThreadLimit {settings.threads}",
            f"ThreadsPerChild {settings.threads}",
            "MinSpareThreads 1",
            f"MaxSpareThreads {settings.workers + settings.threads}",
        ]

    def _connections(self) -> list[str]:
        return [
            "Timeout 60",
            f"KeepAlive {on_off(self.settings.keep_alive)}",
            f"KeepAliveTimeout {IDLE_CONNECTION_TIMEOUT_S}",
            f"MaxKeepAliveRequests {self.settings.max_keep_alive_requests}",
        ]

    def _content(self) -> list[str]:
        settings = self.settings
        # For TLS, also log whether the session was resumed and the number of earlier requests on the connection.
        session = " %{SSL_SESSION_RESUMED}x %k" if settings.over_tls else ""
        log = [
            f'LogFormat "%h %l %u %t \\"%r\\" %>s %b{session}" common',
            f'CustomLog "{self.directory}/{ACCESS_LOG}" common',
        ]
        return [
            *(log if settings.access_log else []),
            f"EnableSendfile {on_off(settings.sendfile)}",
            f"EnableMMAP {on_off(settings.enable_mmap)}",
            f"FileETag {'MTime Size' if settings.etag else 'None'}",
            *self._compression(),
            "TypesConfig /dev/null",
            "AddType text/html .htm .html",
            "AddType image/gif .gif",
            f'DocumentRoot "{self.documents}"',
            f'Alias "/.serverdyno/" "{self.public_directory}/"',
            *([f'Alias "{CONSENT_PATH}" "{self.consent_directory}/"'] if self.shows_consent else []),
            "<Directory />",
            f"    Options {'' if settings.follow_symlinks else '-'}FollowSymLinks",
            "    AllowOverride None",
            "    Require all denied",
            "</Directory>",
            *self._page(),
            *self._granted(self.documents),
            *self._granted(self.public_directory),
            *([f'Include "{self.directory}/{MMAP_LIST}"'] if settings.mmap_file_cache else []),
        ]

    def _compression(self) -> list[str]:
        level = self.settings.gzip_level
        by_type = "AddOutputFilterByType DEFLATE text/html"
        return [f"DeflateCompressionLevel {level}", by_type] if level else []

    @staticmethod
    def _granted(directory: Path) -> list[str]:
        return [f'<Directory "{directory}">', "    Require all granted", "</Directory>"]
