"""The benchmarks of TLS: handshakes and requests per CPU second of the generator, against wrk, h2load and oha.

All tools verify the signatures of handshakes, except oha, which skips them with `--insecure`. None of the peers
verifies the certificate chain here. Ours does in the benchmark of full handshakes, where a second row shows the cost
without it. The server of full handshakes resumes no session, because wrk, h2load and oha resume sessions without
reporting it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from benches.ratios import Bound
from benches.speed import CLOSE, DOCUMENT, NGINX, Case, Goal
from benches.tools import CONNECTIONS, Tool, dyno, h2load, oha, wrk
from serverdyno.plan.protocols.access import ANYBODY
from serverdyno.servers.base import ServerDriver

CPU = "generator CPU, us/request"
SECURE = {"tls": "ecdsa-p256", "tls_min_version": "1.3", "keep_alive_requests": 1_000_000}
OFFERED = {"min_version": "1.3", "max_version": "1.3"}
ROUNDS = 6
"""The minimum for an interval; no more, because there are many tools."""


def cases() -> list[Case]:
    """Return the benchmarks in order."""
    return [*_handshakes(), _keep_alive()]


def ours(name: str = "dyno", resumption: float = 0.0, trust: Any = ANYBODY, **options: Any) -> Tool:
    """Return our generator over TLS 1.3."""
    return dyno(name, trust=trust, tls=OFFERED | {"resumption": resumption}, **options)


def verifying(**options: Any) -> Tool:
    """Return our generator, which verifies the chain with the authority of the measured server."""

    def of_server(server: ServerDriver) -> Tool:
        return ours(trust=server.access().trust, **options)

    return replace(ours(**options), of_server=of_server)


def _handshakes() -> Iterator[Case]:
    yield Case(
        "tls-full-handshakes",
        f"nginx, one worker, TLS 1.3, ECDSA P-256, a full handshake for each request, "
        f"{CONNECTIONS} connections at a time",
        "nginx",
        NGINX | SECURE | {"tls_resumption": False},
        DOCUMENT,
        (
            verifying(keep_alive=False),
            ours("dyno, any certificate", keep_alive=False),
            wrk("wrk", CLOSE),
            h2load("h2load", CLOSE),
            oha("oha", "--disable-keepalive"),
        ),
        (
            Goal("dyno", ("wrk",), CPU, Bound(1 / 1.8, at_least=False)),
            Goal("dyno", ("h2load",), CPU, Bound(1 / 1.5, at_least=False)),
        ),
    )
    yield Case(
        "tls-resumed-handshakes",
        f"nginx, one worker, TLS 1.3, a resumed handshake for each request, {CONNECTIONS} connections at a time",
        "nginx",
        NGINX | SECURE,
        DOCUMENT,
        (ours(resumption=1.0, keep_alive=False), wrk("wrk", CLOSE), oha("oha", "--disable-keepalive")),
        (
            Goal("dyno", ("wrk",), CPU, Bound(1.0, at_least=False)),
            Goal("dyno", ("oha",), CPU, Bound(1.0, at_least=False)),
        ),
    )


def _keep_alive() -> Case:
    return Case(
        "tls-keep-alive",
        f"nginx, one worker, TLS 1.3, HTTP/1.1 keep-alive, 735 bytes, {CONNECTIONS} connections",
        "nginx",
        NGINX | SECURE,
        DOCUMENT,
        (ours(), wrk(), oha()),
        (
            Goal("dyno", ("wrk",), CPU, Bound(1.0, at_least=False)),
            Goal("dyno", ("oha",), CPU, Bound(1.0, at_least=False)),
        ),
    )
