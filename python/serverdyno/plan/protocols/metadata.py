"""Metadata: clients create small files, look at them, read and remove them. A workload of `files.py`.

The phases are those of mdtest. In the scenario step `metadata` (`scenario.py`), clients also wait for each other
between phases.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pydantic import Field

from serverdyno.plan.protocols.model import Model

METADATA: Final = "metadata"


class MetadataSettings(Model):
    """What each client does. One operation is all work on one file."""

    files: int = Field(
        default=20, ge=1, le=100_000, description="Files of each client, which every phase goes through."
    )
    file_bytes: int = Field(
        default=0, ge=0, le=2**20, description="Size of each file, which is written and read at once."
    )
    shared: bool = Field(
        default=False, description="Whether all clients share one directory. false: each client has its own."
    )

    looks: int = Field(
        default=0,
        ge=0,
        le=1000,
        description="Number of looks at the directory per pass: a client lists it, asks for a missing name, and for "
        "the attributes of each of its files. 0: it only asks for the attributes, once.",
    )

    @property
    def workspace_bytes(self) -> int:
        """The most that a client keeps on the server."""
        return self.files * self.file_bytes

    def problems(self) -> Iterator[tuple[str, str]]:
        return iter(())

    def described(self) -> str:
        where = "the directory of all clients of a share" if self.shared else "a directory of its own"
        size = f"of {self.file_bytes:,} bytes" if self.file_bytes else "without content"
        looks = (
            "asks for the attributes of each, "
            if self.looks == 0
            else f"looks at the directory {self.looks:,} times (lists it, asks for a name that is not there, and for "
            "the attributes of each of its files), "
        )
        return (
            f"Each client creates {self.files:,} files {size} in {where}, {looks}reads each "
            "and removes each, again and again. An operation is a file as a whole: create opens, writes and closes it, "
            "read opens, reads and closes it. Clients begin together and do not wait for each other between phases, "
            "unlike those of mdtest; each asks for its own files."
        )

    def parameters(self) -> dict[str, Any]:
        """Return what shapes the load, by key path below `files`."""
        without = set() if self.looks else {"looks"}
        return {f"{METADATA}.{key}": value for key, value in self.model_dump(exclude=without).items()}
