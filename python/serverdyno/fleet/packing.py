"""Messages between controller and node: JSON and optional bytes, compressed with DEFLATE (RFC 1951).

Both sides have the same preset dictionary of usual words (nodes of another build are refused), so a short message
consists mostly of its figures. `pipe.py` defines the messages.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

from serverdyno import _native

RAW = -zlib.MAX_WBITS
"""Raw DEFLATE, without header and checksum, because TLS protects the messages."""
END_OF_WORDS = b"\0"
"""Separator of JSON and bytes. It never occurs in JSON."""
MOST_REQUEST_BYTES = 3 << 29
"""Maximum size of a request after decompression.

The longest request contains a load file: 1 GiB of incompressible data in base64. 170 MiB remain for the rest of the
request.
"""
MOST_ANSWER_BYTES = 1 << 28
"""Maximum size of an answer after decompression, equal to the maximum size of a level's record in the store.

The longest answer is a tally: about 30 MB for 100,000 clients with an outage each and a day of counts per second.
"""
SAID_OFTEN = (
    '"refused": "why": "hint": {"do": "stop", "with": {}} {"do": "start", "with": {"document": {"clients": 1, "seed": '
    '"nonce": "part": {"client_offset": 0, "client_step": 1, "client_run": 1, "clients": 1}}, "anew": false}} '
    '{"do": "clock", "with": {}} {"do": "go", "with": {"start_monotonic_ns": 1, "timeout_s": 1.0}} '
    '{"do": "look", "with": {"timeout_s": 1.0}} '
    '{"told": null} {"told": {"ended": false, "snapshot": {"elapsed_s": 0.0, "clients_prepared": 1, "operations": 0, '
    '"bytes_in": 0, "bytes_moved": 0, "errors": 0, "clients_active": 1, "p99_ms": null}, "link_down": null, '
    '"in_grace": false, "window": {"others_cpu_s": 0.0, "steal_cpu_s": 0.0, "cpus": 2}}}'
)
"""Frequent parts of requests and answers. A missing part only makes messages slightly longer."""


def _as_in_tallies(told: Mapping[str, Any]) -> bytes:
    """Return names and the values that most levels have, encoded in CBOR (RFC 8949) as in tallies."""
    known = b""
    for name, value in told.items():
        known += bytes([0x60 + len(name)]) + name.encode()
        if isinstance(value, Mapping):
            known += bytes([0xA0 + len(value)]) + _as_in_tallies(value)
        elif isinstance(value, bytes):
            known += bytes([0x58, len(value)]) + value
        else:
            known += b"\xf6" if value is None else b"\x80" if isinstance(value, list) else b"\x00"
    return known


KNOWN = _as_in_tallies(_native.merge([])) + SAID_OFTEN.encode()


def packed(words: Any, blob: bytes | None = None) -> bytes:
    """Compress a message and the bytes that follow it, if any."""
    packer = zlib.compressobj(wbits=RAW, zdict=KNOWN)
    plain = json.dumps(words).encode() + (b"" if blob is None else END_OF_WORDS + blob)
    return packer.compress(plain) + packer.flush()


def unpacked(message: bytes, most_bytes: int) -> tuple[Any, bytes | None]:
    """Decompress a message and its bytes. Raises ValueError for malformed data.

    A short message can decompress to a long one, so at most `most_bytes` are accepted.
    """
    unpacking = zlib.decompressobj(wbits=RAW, zdict=KNOWN)
    try:
        plain = unpacking.decompress(message, most_bytes + 1)
    except zlib.error as error:
        raise ValueError(f"the message is damaged: {error}") from error
    if len(plain) > most_bytes:
        raise ValueError(f"the message has more than {most_bytes >> 20} MiB")
    if not unpacking.eof:
        raise ValueError("the message is incomplete")
    words, mark, blob = plain.partition(END_OF_WORDS)
    try:
        return json.loads(words), blob if mark else None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the message is not JSON: {error}") from error
