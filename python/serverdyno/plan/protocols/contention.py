"""Contention: all clients read and write blocks of a few shared files. A workload of `files.py`.

`crates/workload/src/versions.rs` checks the blocks that were read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pydantic import Field

from serverdyno import wording
from serverdyno.plan.protocols.model import Model

CONTENTION: Final = "contention"


class ContentionSettings(Model):
    """The files that all clients share, and the share of writes."""

    files: int = Field(default=1, ge=1, le=1024, description="Number of files that all clients share.")
    blocks: int = Field(
        default=64,
        ge=1,
        le=2**16,
        description="Number of blocks per file. With fewer blocks, locks conflict more often.",
    )
    block_bytes: int = Field(
        default=4096,
        ge=64,
        le=2**20,
        description="Size of a block in bytes. A block is locked, read and written as a whole.",
    )
    writes_percent: int = Field(
        default=50,
        ge=0,
        le=100,
        description="Percentage of turns that write the block; the others only read it.",
    )

    @property
    def workspace_bytes(self) -> int:
        """The size of all shared files."""
        return self.files * self.blocks * self.block_bytes

    def problems(self) -> Iterator[tuple[str, str]]:
        return iter(())

    def kept(self) -> str:
        """Describe the files that stay on the server, for the methodology."""
        return (
            f"{self.workspace_bytes:,} bytes in all. The first client creates them before the first level, which no "
            "figure counts. They are kept from level to level."
        )

    def described(self) -> str:
        shared = wording.plural(self.files, "file")
        return (
            f"All clients share {shared} of {self.blocks:,} blocks of {self.block_bytes:,} bytes. In each turn a "
            "client opens a file for reading and writing, locks one block, reads it, unlocks it and closes the file. "
            f"In {wording.share(self.writes_percent / 100)} of the turns it also writes the block. File, block and "
            "the choice to write are random. A client that finds the block locked tries again after 0.5 ms, and "
            "doubles this delay up to 32 ms."
        )

    def parameters(self) -> dict[str, Any]:
        """Return the settings that shape the load, by key path below `files`."""
        return {f"{CONTENTION}.{key}": value for key, value in self.model_dump().items()}
