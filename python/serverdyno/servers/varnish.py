"""Varnish with its own complete VCL, in front of another server whose documents it caches. It does not support TLS."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from serverdyno.servers.base import Settings
from serverdyno.servers.dynamic import BEHIND
from serverdyno.servers.local import version_line, worker_user
from serverdyno.servers.proxy import Proxy, ProxySettings
from serverdyno.servers.web import IDLE_CONNECTION_TIMEOUT_S, LISTEN_BACKLOG, PROOF_PATH

CONFIGURATION = "default.vcl"
THREADS_FOR_WORKER = 100
VCL = """\
vcl 4.1;
{backends}
import directors;
import std;
sub vcl_init {{
    new backs = directors.round_robin();
{members}
}}
sub vcl_recv {{
    set req.backend_hint = backs.backend();
{asked}
    if (req.url ~ "^{behind}") {{ return (pass); }}
    return (hash);
}}
sub vcl_backend_response {{
    set beresp.ttl = 1h;
    set beresp.uncacheable = false;
    return (deliver);
}}
sub vcl_synth {{
{answers}
}}
"""
ANSWER = """\
    if (req.url == {path}) {{
        set resp.http.Content-Type = "text/plain";
        set resp.body = std.fileread("{file}");
        return (deliver);
    }}"""


class VarnishSettings(ProxySettings):
    tls: Literal["off"] = Field(default="off", description="Varnish does not speak TLS.")
    cache_mib: int = Field(default=256, ge=1, le=65536, description="Memory for cached documents, in MiB.")


class Varnish(Proxy[VarnishSettings]):
    name: ClassVar[str] = "varnish"
    program_name: ClassVar[str] = "varnishd"
    summary: ClassVar[str] = "Varnish, a cache (see team)"
    debian_package: ClassVar[str | None] = "varnish"
    settings_type: ClassVar[type[Settings]] = VarnishSettings

    @staticmethod
    def version_of(program: Path) -> str:
        return version_line(program, "-V").partition("(")[2].partition(" ")[0] or "unknown"

    def command(self) -> list[str]:
        """Return the command that runs Varnish in the foreground, without a management port."""
        jail = "unix" if worker_user() else "none"
        return [
            str(self.program),
            "-F",
            *("-j", jail),
            *("-n", str(self.directory / "work")),
            *("-a", f"{self.host}:{self.port}"),
            *("-f", str(self.directory / CONFIGURATION)),
            *("-s", f"malloc,{self.settings.cache_mib}m"),
            *("-T", "none"),
            *("-p", f"thread_pools={self.workers}"),
            *("-p", f"thread_pool_min={THREADS_FOR_WORKER}"),
            *("-p", f"timeout_idle={IDLE_CONNECTION_TIMEOUT_S}"),
            *("-p", f"listen_depth={LISTEN_BACKLOG}"),
        ]

    def runs_as(self) -> str | None:
        """Return the package's own user, which its jail requires."""
        return "vcache" if worker_user() else None

    def process_count(self) -> int:
        return 2

    def notes(self) -> list[str]:
        return [
            f"Caches documents and 404 answers for an hour in {self.settings.cache_mib} MiB; forwards all "
            f"paths that begin with {BEHIND}. Thread pools: {self.workers}. Its log in shared memory is "
            "always on."
        ]

    def configuration(self) -> dict[str, str]:
        backends = "\n".join(
            f'backend back{number} {{ .host = "{back.host}"; .port = "{back.port}"; }}'
            for number, back in enumerate(self.backs, 1)
        )
        members = "\n".join(
            f"    backs.add_backend(back{number});" for number in range(1, len(self.backs) + 1)
        )
        own = {PROOF_PATH: (f'"{PROOF_PATH}"', self.proof_file)}
        if self.shows_consent:
            path = f'std.fileread("{self.directory}/{self.consent_path_file}")'
            own["consent"] = (path, self.consent_file)
        asked = "\n".join(
            f"    if (req.url == {path}) {{ return (synth(200)); }}" for path, _ in own.values()
        )
        answers = "\n".join(
            ANSWER.format(path=path, file=self.directory / file) for path, file in own.values()
        )
        text = VCL.format(backends=backends, members=members, asked=asked, answers=answers, behind=BEHIND)
        return {CONFIGURATION: text}
