"""Levels from flat options, for benchmarks and tests.

The options become the document of a level for `serverdyno._native`, without a plan.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
from typing import Any

from serverdyno import _native
from serverdyno.fleet.document import NONCE_BITS, VERSION
from serverdyno.plan.model import Suite
from serverdyno.plan.open_load import OpenLoad
from serverdyno.plan.protocols.access import SYSTEM, Access
from serverdyno.plan.protocols.base import Protocol
from serverdyno.plan.protocols.files import FILES, FilesSettings
from serverdyno.plan.protocols.http import HTTP, HttpSettings
from serverdyno.plan.protocols.http_request import RequestSettings
from serverdyno.plan.protocols.look import LOOK_S
from serverdyno.plan.protocols.nfs import NFS
from serverdyno.plan.protocols.objects import OBJECTS, ObjectsSettings, Size
from serverdyno.plan.protocols.posix import POSIX
from serverdyno.plan.protocols.s3 import S3
from serverdyno.plan.protocols.smb import SMB

SHAPE: dict[str, Any] = {
    "threads": 1,
    "delay_s": 0.0,
    "timeout_s": Suite.model_fields["timeout_s"].default,
    "verify_share": 1.0,
    "seed": 0,
    "engine_threads": 1,
    "cpus": [],
}
WORKLOADS: dict[str, dict[str, Any]] = {
    "url": {"paths": []},
    "webbench-dynamic": {"secure_share": 0.0, "dynamic_share_of_secure": 0.0},
    "diskmix": FILES.workload_section("diskmix", FilesSettings()),
    "streams": {"random": False, "writers_percent": 0},
    "metadata": {"shared": False, "looks": 0},
}
"""Defaults of each workload; streams are read unless an option says otherwise."""
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


def http_target(
    url: str, consent_token: str | None = None, trust: Any = None, **section: Any
) -> _native.Target:
    """Open a web server as a target. `trust` selects the trusted authorities, for TLS."""
    return _opened(HTTP, url, {"trust": trust or SYSTEM, **section}, consent_token=consent_token)


def smb_target(
    url: str,
    *,
    password: str | None = None,
    consent_token: str | None = None,
    timeout_s: float = LOOK_S,
    **section: Any,
) -> _native.Target:
    """Open SMB shares as a target. `section` overrides defaults."""
    secrets = {"password": password, "consent_token": consent_token, "timeout_s": timeout_s}
    return _opened(SMB, url, section, **secrets)


def nfs_target(url: str, *, consent_token: str | None = None, **section: Any) -> _native.Target:
    """Open NFS exports as a target. `section` overrides defaults."""
    return _opened(NFS, url, section, consent_token=consent_token)


def directory_target(url: str, **section: Any) -> _native.Target:
    """Open a directory of this machine as a target. `section` overrides defaults."""
    return _opened(POSIX, url, section)


def s3_target(url: str, access_key: list[str | None], **section: Any) -> _native.Target:
    """Open a bucket as a target, with the ID, secret and session token of an access key."""
    return _opened(S3, url, section, access_key=tuple(access_key))


def _opened(protocol: Protocol[Any], url: str, section: dict[str, Any], **secrets: Any) -> _native.Target:
    complete = protocol.target_section(Access(url), protocol.settings_type())
    return _native.Target.open(protocol.name, json.dumps(complete | section), **secrets)


def document(
    target: _native.Target, workload: dict[str, Any], client: dict[str, Any], **shape: Any
) -> dict[str, Any]:
    """Return the document of a level, with defaults for missing keys.

    `shape` contains the other keys of the document, including the keys of `window` and `engine`. It also has
    `think_time_s`, or `rate_per_s` and `law` for open load.
    """
    shape = SHAPE | shape
    window = {key: shape.pop(key, 0.0) for key in WINDOW}
    engine = {name: shape.pop(key) for key, name in ENGINE.items()}
    arrival: dict[str, Any] = {"kind": "closed", "think_time_s": shape.pop("think_time_s", 0.0)}
    if (rate_per_s := shape.pop("rate_per_s", None)) is not None:
        queue = OpenLoad.model_fields["queue"].default
        arrival = {
            "kind": "open",
            "rate_per_s": rate_per_s,
            "law": shape.pop("law", "poisson"),
            "queue": queue,
        }
    return {
        "version": VERSION,
        "protocol": target.protocol,
        "target": target.section,
        "workload": WORKLOADS.get(workload["name"], {}) | workload,
        "client": _client(target.protocol, client),
        "arrival": arrival,
        "window": window,
        "engine": engine,
        "nonce": secrets.randbits(NONCE_BITS),
        **shape,
    }


def _client(protocol: str, client: dict[str, Any]) -> dict[str, Any]:
    """Return the section of a client, with defaults for missing keys."""
    if protocol == HTTP.name:
        complete = HTTP.client_section(HttpSettings())
        return complete | client | {"tls": complete["tls"] | (client.get("tls") or {})}
    if any(protocol == each.name for each in (SMB, NFS, POSIX)):
        return FILES.client_section(FilesSettings(), last_level=False) | client
    return client


def web_level(target: _native.Target, **options: Any) -> _native.PreparedLevel:
    """Prepare a level of work on documents. `options`: `workload`, the client's options, and the level's shape."""
    client = {name: options.pop(key) for key, name in OF_WEB_CLIENT.items() if key in options}
    workload = {"name": options.pop("workload")}
    return _native.prepare(json.dumps(document(target, workload, client, **options)), target)


def web_request(method: str, body_bytes: int | None) -> dict[str, Any]:
    """Return the section of a request, with a body of random bytes unless `body_bytes` is None."""
    body = None if body_bytes is None else base64.b64encode(os.urandom(body_bytes)).decode()
    return RequestSettings(method=method).section() | {"body": body}


def objects_level(
    target: _native.Target, *, weights: dict[str, int], object_bytes: int, objects: int, **shape: Any
) -> _native.PreparedLevel:
    """Prepare a level of work on objects of one size, which are removed after it. No object is put in parts."""
    settings = ObjectsSettings.model_validate(
        {"weights": weights, "size": Size(fixed=object_bytes), "objects": objects, "part_bytes": 0}
    )
    client = OBJECTS.client_section(settings, last_level=True)
    workload = OBJECTS.workload_section("objects", settings)
    return _native.prepare(json.dumps(document(target, workload, client, **shape)), target)


def files_level(
    target: _native.Target,
    files: dict[str, Any],
    workspaces: _native.Workspaces | None = None,
    **shape: Any,
) -> _native.PreparedLevel:
    """Prepare a level of work on files.

    `files` contains `workload` with its options, a `load_file`, and the client's options.
    """
    client = dict(files)
    load_file = client.pop("load_file", None)
    workload = {"name": client.pop("workload")}
    workload |= {key: client.pop(key) for key in OF_WORKLOADS if key in client}
    text = json.dumps(document(target, workload, client, **shape))
    return _native.prepare(text, target, workspaces, load_file)
