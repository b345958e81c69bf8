"""What it takes to reach a server and to be let in. A driver says it, a protocol opens a target with it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Access:
    """What the generator needs to reach a server, once the server is ready.

    `network_namespace` is the file of the namespace that it enters before it connects; None: its own.
    """

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    shares: tuple[str, ...] = ()
    network_namespace: str | None = None
