"""Bonnie: the parameters of T. Bray's program. A workload of `files.py` whose phases are levels that end when done.

Not for: its rows (`analysis/bonnie_rows.py`), nor for carrying it out (`run/steps.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, Final

from pydantic import Field

from serverdyno.plan.protocols.model import Model
from serverdyno.plan.protocols.options import Option
from serverdyno.plan.protocols.work import PlannedStep

BONNIE: Final = "bonnie"
"""The workload's name."""
PHASES = ("putc", "rewrite", "write", "getc", "read", "seeks")
"""In the order in which they run."""
MIB = 1 << 20
MOST_SESSIONS = 1024
"""Seekers of all clients. Each is a thread with a session."""


class BonnieSettings(Model):
    """The defaults are those of the program of 1996, but for the size. The suite's `clients` are Bonnies at the same
    time.
    """

    size_mib: Annotated[int, Option(("-s", "--size-mib"))] = Field(
        default=100, ge=1, le=1 << 22, description="Size of the file in MB (2^20)."
    )
    chunk_bytes: Annotated[int, Option(("--chunk",))] = Field(
        default=16384,
        ge=512,
        le=MIB,
        description="Bytes per read or write. Programs before 1996 used 8192.",
    )
    seeks: int = Field(default=4000, ge=1, le=10**7, description="Seeks of one Bonnie, in all.")
    seekers: int = Field(default=3, ge=1, le=64, description="Seekers of one Bonnie at the same time.")
    check: bool = Field(
        default=True,
        description="Compare everything that is read with what was written; a difference ends the run with an error.",
    )

    @property
    def size_bytes(self) -> int:
        """The size of one file: whole chunks, as many as fit."""
        return self.size_mib * MIB // self.chunk_bytes * self.chunk_bytes

    @property
    def workspace_bytes(self) -> int:
        """The size of a client's file."""
        return self.size_bytes

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield nothing: every value fits together with every other."""
        return iter(())

    def planned(self, clients: int) -> tuple[PlannedStep, ...]:
        """Return the phases, for so many Bonnies at the same time."""
        return tuple(
            PlannedStep(name, clients=clients * (self.seekers if name == "seeks" else 1)) for name in PHASES
        )

    def scaled(self, scale: float) -> BonnieSettings:
        """Return the settings with a file of this share of the size, at least 1 MB; it seeks as often."""
        return self.model_copy(update={"size_mib": max(1, math.ceil(self.size_mib * scale))})

    def described(self) -> str:
        """Say what clients do, for the methodology."""
        return (
            f"The six phases of Bonnie, each client on a file of {self.size_mib:,} MB in chunks of "
            f"{self.chunk_bytes:,} bytes, and {self.seeks:,} seeks by {self.seekers} seekers. A row is of all clients "
            "together."
        )

    def parameters(self) -> dict[str, Any]:
        """Return what shapes the load, by key path below `files`."""
        return {f"{BONNIE}.{key}": value for key, value in self.model_dump().items()}
