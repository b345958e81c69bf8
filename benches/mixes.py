"""Mixes from flat options, for benches and tests: the document that `serverdyno._native` takes, without a plan."""

from __future__ import annotations

import json
import secrets
from typing import Any

from serverdyno import _native
from serverdyno.fleet.document import NONCE_BITS, VERSION

WINDOW = ("length_s", "ramp_up_s", "ramp_down_s")
ENGINE = {"engine_threads": "threads", "cpus": "cpus"}
OF_WEB_CLIENT = {
    "http_version": "version",
    "streams": "streams",
    "keep_alive": "keep_alive",
    "close": "close",
    "receive_buffer_bytes": "receive_buffer_bytes",
    "fresh_sockets": "fresh_sockets",
    "tls": "tls",
    "request": "request",
}
OF_DISK_MIX = ("workspace_bytes", "legacy_seed_reads", "true_offsets")
OF_STREAMS = ("file_bytes", "block_bytes", "random", "writers_percent")
OF_METADATA = ("files", "file_bytes", "shared", "looks")
OF_CONTENTION = ("files", "blocks", "writes_percent")
OF_FAILOVER = ("blocks", "block_bytes", "writes_per_flush", "cut_connections_percent")
OF_WORKLOADS = {*OF_DISK_MIX, *OF_STREAMS, *OF_METADATA, *OF_CONTENTION, *OF_FAILOVER}


def http_target(url: str, consent_token: str | None = None, trust: Any = None) -> _native.Target:
    """Open a web server. `trust`: whose certificates count, of one that speaks TLS."""
    section = {"url": url} if trust is None else {"url": url, "trust": trust}
    return _native.Target.open("http", json.dumps(section), consent_token=consent_token)


def smb_target(
    url: str, *, password: str | None = None, consent_token: str | None = None, **section: Any
) -> _native.Target:
    """Open shares; `section`: the rest of the document's section."""
    text = json.dumps({"url": url} | section)
    return _native.Target.open("smb", text, password=password, consent_token=consent_token)


def nfs_target(url: str, **section: Any) -> _native.Target:
    """Open exports; `section`: the rest of the document's section."""
    return _native.Target.open("nfs", json.dumps({"url": url} | section))


def document(
    target: _native.Target, workload: dict[str, Any], client: dict[str, Any], **shape: Any
) -> dict[str, Any]:
    """Return the document of a mix. `shape`: its other keys, those of `window` and `engine` among them, and
    `think_time_s`, or `rate_per_s` and `law` of open load.
    """
    window = {key: shape.pop(key) for key in WINDOW if key in shape}
    engine = {name: shape.pop(key) for key, name in ENGINE.items() if key in shape}
    arrival: dict[str, Any] = {"kind": "closed", "think_time_s": shape.pop("think_time_s", 0.0)}
    if (rate_per_s := shape.pop("rate_per_s", None)) is not None:
        arrival = {"kind": "open", "rate_per_s": rate_per_s, "law": shape.pop("law", "poisson")}
    return {
        "version": VERSION,
        "protocol": target.protocol,
        "target": target.section,
        "workload": workload,
        "client": client,
        "arrival": arrival,
        "window": window,
        "engine": engine,
        "nonce": secrets.randbits(NONCE_BITS),
        **shape,
    }


def web_mix(target: _native.Target, **options: Any) -> _native.PreparedMix:
    """Prepare a mix of work on documents. `options`: `workload`, those of the client, and the mix's shape."""
    client = {name: options.pop(key) for key, name in OF_WEB_CLIENT.items() if key in options}
    workload = {"name": options.pop("workload")}
    return _native.prepare(json.dumps(document(target, workload, client, **options)), target)


def files_mix(
    target: _native.Target,
    files: dict[str, Any],
    workspaces: _native.Workspaces | None = None,
    **shape: Any,
) -> _native.PreparedMix:
    """Prepare a mix of work on files. `files`: `workload` with its options, a `load_file`, and the client's options."""
    client = dict(files)
    load_file = client.pop("load_file", None)
    workload = {"name": client.pop("workload")}
    workload |= {key: client.pop(key) for key in OF_WORKLOADS if key in client}
    text = json.dumps(document(target, workload, client, **shape))
    return _native.prepare(text, target, workspaces, load_file)
