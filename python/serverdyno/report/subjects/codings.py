"""The number of compressed bodies that clients decoded to check them."""

from __future__ import annotations

from serverdyno import wording
from serverdyno.report.source import Source
from serverdyno.report.subjects.http2 import counts_by_name

# Defined in crates/http/src/coding.rs.
DECODED = {"body decoded (gzip)": "gzip", "body decoded (deflate)": "deflate", "body decoded (br)": "br"}
OTHERS = {
    "body not decoded (another content coding)": "with another content coding",
    "body not decoded (more than 16 MiB)": "of more than 16 MiB",
}


def sentences(source: Source, configuration: str) -> str:
    """Return a sentence on how many bodies a configuration's clients decoded; empty if none was compressed."""
    counts = counts_by_name(source, configuration)
    decoded = [f"{counts[name]:,} {coding}" for name, coding in DECODED.items() if counts[name]]
    others = [f"{counts[name]:,} {which}" for name, which in OTHERS.items() if counts[name]]
    parts = (
        [f"Compressed bodies that clients decoded to check them: {wording.listing(decoded)}."]
        if decoded
        else []
    )
    parts += (
        [f"Bodies of the sample that clients could not check: {wording.listing(others)}."] if others else []
    )
    return " ".join(parts)
