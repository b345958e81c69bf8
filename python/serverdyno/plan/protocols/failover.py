"""Failover: clients continue to use a file across an outage of their server. A workload of `files.py`.

`run/outage.py` causes the outage, and `crates/workload/src/versions.rs` checks the blocks that were read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

from pydantic import Field

from serverdyno import wording
from serverdyno.plan.protocols.model import Model
from serverdyno.plan.protocols.work import Cut

FAILOVER: Final = "failover"
CUTS: Final = {
    "server": "all processes of the server are killed, and the server is restarted",
    "processes": "the processes that serve the connections are killed, and the server's first process keeps "
    "running",
    "connections": "every client cuts its connection, and the server keeps running",
}


class FailoverSettings(Model):
    """The data that each client writes and reads, and the kind of outage."""

    blocks: int = Field(default=64, ge=1, le=2**16, description="Number of blocks in each client's file.")
    block_bytes: int = Field(
        default=4096,
        ge=64,
        le=2**20,
        description="Size of a block in bytes. A block is written and read as a whole.",
    )
    writes_per_flush: int = Field(
        default=4, ge=1, le=1_000_000, description="Number of writes after which a client flushes its file."
    )
    cut: Literal["server", "processes", "connections"] = Field(
        default="server", description="; ".join(f"{name}: {what}" for name, what in CUTS.items()) + "."
    )
    cut_percent: int = Field(
        default=30, ge=1, le=99, description="Start of the outage, as a percentage of each level's window."
    )
    away_s: float = Field(
        default=1.0,
        ge=0,
        le=3600,
        description="Time between the kill of the server and its restart.",
    )

    @property
    def workspace_bytes(self) -> int:
        """The size of a client's file."""
        return self.blocks * self.block_bytes

    @property
    def cut_off(self) -> Cut:
        return Cut(self.cut, self.cut_percent, self.away_s)

    def problems(self) -> Iterator[tuple[str, str]]:
        return iter(())

    def section(self) -> dict[str, Any]:
        """Return the parameters for the data plane."""
        shape = self.model_dump(include={"blocks", "block_bytes", "writes_per_flush"})
        by_clients = self.cut_percent if self.cut == "connections" else None
        return {**shape, "cut_connections_percent": by_clients}

    def described(self) -> str:
        writes = wording.plural(self.writes_per_flush, "write")
        return (
            f"Each client has a file of {self.blocks:,} blocks of {self.block_bytes:,} bytes open. It repeatedly "
            f"writes a block, flushes after every {writes}, and reads a block; blocks are chosen at random. After "
            f"{self.cut_percent} % of the window {CUTS[self.cut]}{self._away()}. A client whose connection is lost "
            "connects again every 50 ms (over NFS 100 ms), until the operation times out. Each block read is checked, "
            "and after the level every block is read back: acknowledged and flushed data must be there."
        )

    def _away(self) -> str:
        return f" after {self.away_s:g} s" if self.cut == "server" else ""

    def parameters(self) -> dict[str, Any]:
        """Return the settings that shape the load, by key path below `files`."""
        return {f"{FAILOVER}.{key}": value for key, value in self.model_dump().items()}
