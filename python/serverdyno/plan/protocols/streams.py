"""Streams: clients read and write large files of their own, block by block. A workload of `files.py`.

The steps `streams` of a scenario (`scenario.py`) go through their files only once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pydantic import Field

from serverdyno import wording
from serverdyno.plan.protocols.model import Model

STREAMS: Final = "streams"
MOST_BLOCKS = 2**24
"""Maximum number of blocks per file. Their order is kept in memory."""


class StreamsSettings(Model):
    """The files of each client, and how it reads or writes them.

    The suite's `threads` is the number of blocks that a client transfers concurrently.
    """

    file_bytes: int = Field(
        default=16 * 2**20, ge=2, le=2**40, description="Size of each client's file, in whole blocks."
    )
    block_bytes: int = Field(default=64 * 2**10, ge=1, le=2**20, description="Bytes per read or write.")
    random: bool = Field(
        default=False, description="Process the blocks in a random order instead of one after another."
    )
    writers_percent: int = Field(
        default=50, ge=0, le=100, description="Percentage of clients that write; the others read."
    )

    @property
    def workspace_bytes(self) -> int:
        """The size of a client's file."""
        return self.file_bytes

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield the key and the reason of each contradiction."""
        blocks, rest = divmod(self.file_bytes, self.block_bytes)
        if rest or not 2 <= blocks <= MOST_BLOCKS:
            yield "file_bytes", f"must be 2 to {MOST_BLOCKS:,} whole blocks of {self.block_bytes:,} bytes"

    def described(self) -> str:
        order = "in a random order, the same in each pass" if self.random else "from its beginning to its end"
        return (
            f"Each client has a file of {self.file_bytes:,} bytes and processes it repeatedly, {order}, in "
            f"blocks of {self.block_bytes:,} bytes. {wording.share(self.writers_percent / 100)} of the clients write "
            "and flush after each pass, the others read. Written data may stay in the server's memory until "
            "the flush."
        )

    def parameters(self) -> dict[str, Any]:
        """Return the settings that shape the load, by key path below `files`."""
        return {f"{STREAMS}.{key}": value for key, value in self.model_dump().items()}
