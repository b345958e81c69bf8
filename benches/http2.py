"""The benchmarks of HTTP/2: requests per CPU second of the generator, ten streams per connection, against h2load.

Over TLS, the server is nginx; in the clear, it is the reference server, which supports both versions on one port. Ours
checks every response and records every response time.
"""

from __future__ import annotations

from typing import Any

from benches.ratios import Bound
from benches.speed import BODY_BYTES, DOCUMENT, NGINX, Case, Goal
from benches.tls import CPU, OFFERED, SECURE
from benches.tools import Tool, dyno, h2load_streams
from serverdyno.plan.protocols.access import ANYBODY

STREAMS = 10
CONNECTIONS = 16
GOAL = Goal("dyno", ("h2load",), CPU, Bound(1.0, at_least=False))


def cases() -> list[Case]:
    """Return the benchmarks in order."""
    shape = f"{CONNECTIONS} connections of {STREAMS} streams"
    peer = h2load_streams("h2load", CONNECTIONS, STREAMS)
    return [
        Case(
            "http2-tls",
            f"nginx, one worker, HTTP/2 over TLS 1.3, 735 bytes, {shape}",
            "nginx",
            NGINX | SECURE | {"http2": True},
            DOCUMENT,
            (ours(trust=ANYBODY, tls=OFFERED), peer),
            (GOAL,),
        ),
        Case(
            "http2-clear",
            f"Reference server, HTTP/2 with prior knowledge, {BODY_BYTES} bytes, {shape}",
            "reference",
            {"body_bytes": BODY_BYTES, "http2": True},
            "/",
            (ours(), peer),
            (GOAL,),
        ),
    ]


def ours(**options: Any) -> Tool:
    """Return our generator, with a client per connection and a thread per stream."""
    return dyno("dyno", CONNECTIONS, http_version="2", threads=STREAMS, streams=STREAMS, **options)
