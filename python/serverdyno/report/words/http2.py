"""HTTP/2 as it came to be spoken: how it was chosen, and on how many connections its streams were.

A client that speaks HTTP/2 speaks nothing else, so a counted stream is one of a negotiated protocol. Not for: what a
suite asks for (`protocols/http.py`).
"""

from __future__ import annotations

from serverdyno import wording
from serverdyno.report.source import Source

STREAM = "HTTP/2 stream"  # of crates/engine/src/counting.rs


def sentences(source: Source, configuration: str) -> str:
    """What a configuration's clients spoke; nothing where it was not HTTP/2."""
    records = source.records_of(configuration)
    streams = sum(row.count for record in records for row in record.requests if row.request == STREAM)
    if not streams:
        return ""
    connections = sum(record.connections for record in records)
    how = "by ALPN" if any(record.handshakes for record in records) else "with prior knowledge"
    return (
        f"Spoken: HTTP/2 {how}; {wording.plural(streams, 'stream')} on "
        f"{wording.plural(connections, 'connection')}, ramps included."
    )
