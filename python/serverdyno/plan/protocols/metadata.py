"""Metadata: clients create, stat, read and remove small files. A workload of `files.py`.

The phases are mdtest's. In the scenario step `metadata` (`scenario.py`), clients also wait for each other between
phases.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pydantic import Field

from serverdyno.plan.protocols.model import Model

METADATA: Final = "metadata"


class MetadataSettings(Model):
    """The work of each client. One operation comprises all work on one file."""

    files: int = Field(
        default=20,
        ge=1,
        le=100_000,
        description="Number of files per client. Each phase processes all of them.",
    )
    file_bytes: int = Field(
        default=0,
        ge=0,
        le=2**20,
        description="Size of each file. A file is written, and read, in a single request.",
    )
    shared: bool = Field(
        default=False, description="Let all clients share one directory. false: each client has its own."
    )

    looks: int = Field(
        default=0,
        ge=0,
        le=1000,
        description=(
            "Number of look-ups per pass. In each, a client lists the directory, looks up a missing name, "
            "and gets the attributes of each of its files. 0: a client only gets the attributes, once."
        ),
    )

    @property
    def workspace_bytes(self) -> int:
        """The maximum number of bytes that a client keeps on the server."""
        return self.files * self.file_bytes

    def problems(self) -> Iterator[tuple[str, str]]:
        return iter(())

    def described(self) -> str:
        where = "the directory of all clients of a share" if self.shared else "its own directory"
        size = f"of {self.file_bytes:,} bytes" if self.file_bytes else "without content"
        looks = (
            "gets the attributes of each, "
            if self.looks == 0
            else f"queries the directory {self.looks:,} times (lists it, looks up a missing name, and gets "
            "the attributes of each of its files), "
        )
        return (
            f"Each client creates {self.files:,} files {size} in {where}, {looks}reads each "
            "and removes each, repeatedly. An operation handles a whole file: create opens, writes and "
            "closes it; read opens, reads and closes it. Clients begin together but, unlike in mdtest, do "
            "not wait for each other between phases. Each client uses its own files."
        )

    def parameters(self) -> dict[str, Any]:
        """Return the settings that shape the load, by key path below `files`."""
        without = set() if self.looks else {"looks"}
        return {f"{METADATA}.{key}": value for key, value in self.model_dump(exclude=without).items()}
