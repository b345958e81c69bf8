"""The parameters of Bonnie, T. Bray's program: a workload of `files.py` whose phases are levels that end when done.

`run/steps.py` runs Bonnie, and `analysis/bonnie_rows.py` computes the rows of its output.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, Final

from pydantic import Field

from serverdyno.plan.protocols.model import Model
from serverdyno.plan.protocols.options import Option
from serverdyno.plan.protocols.work import PlannedStep
from serverdyno.units import MIB

BONNIE: Final = "bonnie"
PHASES = ("putc", "rewrite", "write", "getc", "read", "seeks")
"""Phases in order."""
MOST_SESSIONS = 1024
"""Maximum number of seekers of all clients together. Each is a thread with its own session."""


class BonnieSettings(Model):
    """The settings of Bonnie. All defaults except the size are the defaults of the program of 1996.

    The suite's `clients` is the number of concurrent Bonnie clients.
    """

    size_mib: Annotated[int, Option(("-s", "--size-mib"))] = Field(
        default=100,
        ge=1,
        le=1 << 22,
        description="Size of the file in MB (2^20). As an option, K, M or G may follow.",
    )
    chunk_bytes: Annotated[int, Option(("--chunk",))] = Field(
        default=16384,
        ge=512,
        le=MIB,
        description="Bytes per read or write. Versions before 1996 used 8192.",
    )
    seeks: int = Field(default=4000, ge=1, le=10**7, description="Number of seeks per Bonnie client.")
    seekers: int = Field(
        default=3, ge=1, le=64, description="Number of concurrent seekers per Bonnie client."
    )
    check: bool = Field(
        default=True,
        description="Compare all data read with the data written; a difference ends the run with an error.",
    )

    @property
    def size_bytes(self) -> int:
        """The size of one file: as many whole chunks as fit into `size_mib`."""
        return self.size_mib * MIB // self.chunk_bytes * self.chunk_bytes

    @property
    def workspace_bytes(self) -> int:
        return self.size_bytes

    def problems(self) -> Iterator[tuple[str, str]]:
        return iter(())

    def planned(self, clients: int) -> tuple[PlannedStep, ...]:
        """Return the phases for this number of concurrent Bonnie clients."""
        return tuple(
            PlannedStep(name, clients=clients * (self.seekers if name == "seeks" else 1)) for name in PHASES
        )

    def scaled(self, scale: float) -> BonnieSettings:
        """Return the settings with the file size scaled, at least 1 MB; the number of seeks stays the same."""
        return self.model_copy(update={"size_mib": max(1, math.ceil(self.size_mib * scale))})

    def described(self) -> str:
        return (
            f"Each client runs the six phases of Bonnie on a file of {self.size_mib:,} MB in chunks of "
            f"{self.chunk_bytes:,} bytes, with {self.seeks:,} seeks by {self.seekers} seekers. A row covers all "
            "clients together."
        )

    def parameters(self) -> dict[str, Any]:
        """Return the settings that shape the load, by key path below `files`."""
        return {f"{BONNIE}.{key}": value for key, value in self.model_dump().items()}
