"""HTTP/2 as negotiated: how it was selected, and the number of its streams and connections.

An HTTP/2 client uses no other protocol, so every counted stream belongs to a negotiated connection. The settings of a
suite are in `plan/protocols/http.py`.
"""

from __future__ import annotations

from collections import Counter

from serverdyno import wording
from serverdyno.report.source import Source

# Defined in crates/engine/src/counting.rs.
STREAM = "HTTP/2 stream"
UNPROCESSED = {
    "HTTP/2 stream refused (REFUSED_STREAM)": "by REFUSED_STREAM",
    "HTTP/2 stream above GOAWAY": "by GOAWAY",
}


def counts_by_name(source: Source, configuration: str) -> Counter[str]:
    """Return the sums of a configuration's counters by name, such as HTTP/2 streams."""
    counts: Counter[str] = Counter()
    for row in (row for record in source.records_of(configuration) for row in record.requests):
        counts[row.request] += row.count
    return counts


def sentences(source: Source, configuration: str) -> str:
    """Return sentences on how a configuration's clients used HTTP/2; empty if they did not."""
    records, counts = source.records_of(configuration), counts_by_name(source, configuration)
    if not counts[STREAM]:
        return ""
    connections = sum(record.connections for record in records)
    how = "by ALPN" if any(record.handshakes for record in records) else "with prior knowledge"
    refused = [f"{counts[name]:,} {by}" for name, by in UNPROCESSED.items() if counts[name]]
    return (
        f"Protocol: HTTP/2 {how}; {wording.plural(counts[STREAM], 'stream')} on "
        f"{wording.plural(connections, 'connection')}, ramps "
        f"included.{(f' Refused unprocessed: {wording.listing(refused)}.' if refused else '')}"
    )
