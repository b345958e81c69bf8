"""The host and port of a fleet's scheduler, as people write them."""

from __future__ import annotations

PORT = 8786


def host_and_port(at: str) -> tuple[str, int]:
    """Split `HOST`, `HOST:PORT` or `[ADDRESS]:PORT`. The host is returned without brackets. Raises ValueError."""
    host, colon, port = at.rpartition(":")
    if not colon or at.endswith("]"):
        host, port = at, str(PORT)
    if not port.isdecimal() or not 0 < int(port) < 1 << 16 or not host:
        raise ValueError(f"{at!r}: expected HOST or HOST:PORT")
    return host.strip("[]"), int(port)
