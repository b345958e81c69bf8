"""Caddy with its own complete Caddyfile: no file in /etc/caddy is read, and no certificate is requested."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from serverdyno.servers import dynamic
from serverdyno.servers.base import Settings
from serverdyno.servers.consent import CONSENT_PATH
from serverdyno.servers.local import version_line
from serverdyno.servers.tls import CERTIFICATE, KEY
from serverdyno.servers.web import (
    ACCESS_LOG,
    DYNAMIC_MEANING,
    GZIP_MIN_BYTES,
    IDLE_CONNECTION_TIMEOUT_S,
    Compressing,
    Http2Settings,
    WebServer,
)

CONFIGURATION = "Caddyfile"


class CaddySettings(Compressing, Http2Settings):
    dynamic: Literal["off", "fastcgi"] = Field(
        default="off", description=f"{DYNAMIC_MEANING} Debian's Caddy has only FastCGI."
    )
    access_log: bool = Field(
        default=False,
        description="Write an access log in JSON, one line per request. Default: off, as in "
        "VeriTest 2003, appendix C.",
    )
    tls_resumption: Literal[True] = Field(
        default=True, description="Let clients resume earlier TLS sessions. Caddy always does."
    )


class Caddy(WebServer[CaddySettings]):
    name: ClassVar[str] = "caddy"
    program_name: ClassVar[str] = "caddy"
    summary: ClassVar[str] = "Caddy 2"
    debian_package: ClassVar[str | None] = "caddy"
    settings_type: ClassVar[type[Settings]] = CaddySettings

    @staticmethod
    def version_of(program: Path) -> str:
        return f"Caddy {version_line(program, 'version').partition(' ')[0]}"

    def command(self) -> list[str]:
        configuration = str(self.directory / CONFIGURATION)
        return self.beside_the_page(
            [str(self.program), "run", "--config", configuration, "--adapter", "caddyfile"]
        )

    def environment(self) -> dict[str, str]:
        """Return variables that keep Caddy's data in the private directory and set the number of threads."""
        kept = dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"), str(self.directory))
        return {**kept, "GOMAXPROCS": str(self.processors)}

    def process_count(self) -> int:
        """Return the number of processes: one with threads, and the page's program."""
        return 1 + (self.dynamic == "fastcgi")

    def keeps_access_log(self) -> bool:
        return self.settings.access_log

    def runs_as(self) -> str | None:
        """Return None, which means the user of this process: Caddy does not drop privileges."""
        return None

    def notes(self) -> list[str]:
        return ["Sends Etag and Last-Modified with documents. Does not limit the number of connections."]

    def configuration(self) -> dict[str, str]:
        settings = self.settings
        servers = [
            "servers {",
            f"    protocols {'h1 h2 h2c' if settings.http2 else 'h1'}",
            "    timeouts {",
            f"        idle {IDLE_CONNECTION_TIMEOUT_S}s",
            "    }",
            "}",
        ]
        lines = [
            "{",
            *(f"    {line}" for line in ("admin off", "auto_https off", *servers)),
            "}",
        ]
        for port, secure in self.endpoints():
            scheme = "https" if secure else "http"
            lines += [f"{scheme}://:{port} {{", f"    bind {self.host}"]
            if secure:
                versions = f"tls{settings.tls_min_version} tls{settings.tls_max_version}"
                lines += [
                    f"    tls {self.directory / CERTIFICATE} {self.directory / KEY} {{",
                    f"        protocols {versions}",
                    "    }",
                ]
            if settings.access_log:
                lines += [
                    "    log {",
                    f"        output file {self.directory / ACCESS_LOG} {{",
                    "            roll_disabled",
                ]
                lines += ["        }", "    }"]
            lines += [f"    {line}" for line in self._content()]
            lines.append("}")
        return {CONFIGURATION: "\n".join(lines) + "\n"}

    def _content(self) -> list[str]:
        page = [
            f"handle {dynamic.PATH} {{",
            f"    reverse_proxy unix/{self.directory / dynamic.SOCKET} {{",
            "        transport fastcgi {",
            f"            split {Path(dynamic.PATH).name}",
            "        }",
            "    }",
            "}",
        ]
        consent = [
            f"handle_path {CONSENT_PATH}* {{",
            f"    root * {self.consent_directory}",
            "    file_server",
            "}",
        ]
        return [
            "handle_path /.serverdyno/* {",
            f"    root * {self.public_directory}",
            "    file_server",
            "}",
            *(consent if self.shows_consent else []),
            *(page if self.dynamic == "fastcgi" else []),
            "handle {",
            f"    root * {self.documents}",
            *self._compression(),
            "    file_server",
            "}",
        ]

    def _compression(self) -> list[str]:
        level = self.settings.gzip_level
        if not level:
            return []
        block = [
            f"gzip {level}",
            f"minimum_length {GZIP_MIN_BYTES}",
            "match header Content-Type text/html*",
        ]
        return ["    encode {", *(f"        {line}" for line in block), "    }"]
