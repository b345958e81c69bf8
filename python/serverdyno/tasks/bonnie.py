"""Bonnie as a task: its parameters, and its phases carried out once on a target. Rows are `analysis/bonnie_rows.py`."""

from __future__ import annotations

import json
import os
import secrets

from pydantic import Field

from serverdyno import _native
from serverdyno.errors import ServerError
from serverdyno.plan.protocols.files import block_bytes
from serverdyno.plan.protocols.model import Model

BONNIE = "bonnie"
"""The name of the task."""
MIB = 1 << 20
_NONCE_BITS = 64


class Bonnie(Model):
    """The parameters of Bonnie. The defaults are those of the program of 1996, but for the size."""

    size_mib: int = Field(default=100, ge=1, le=1 << 22, description="Size of the file in MB (2^20).")
    chunk_bytes: int = Field(default=16384, ge=512, le=MIB, description="Bytes per read or write.")
    seeks: int = Field(default=4000, ge=1, le=10**7, description="Seeks of one Bonnie, in all.")
    seekers: int = Field(default=3, ge=1, le=64, description="Seekers of one Bonnie at the same time.")
    clients: int = Field(
        default=1,
        ge=1,
        le=16,
        description="Bonnies at once, each with a session and a file of its own, which begin each phase together.",
    )

    check: bool = Field(
        default=True,
        description="Compare everything that is read with what was written; a difference ends the run with an error.",
    )

    @property
    def size_bytes(self) -> int:
        """Of one file: whole chunks, as many as fit into the size."""
        return self.size_mib * MIB // self.chunk_bytes * self.chunk_bytes

    @property
    def all_bytes(self) -> int:
        """Of the files of all clients."""
        return self.clients * self.size_bytes

    @property
    def all_seeks(self) -> int:
        return self.clients * self.seeks


def file_name() -> str:
    """Return the name that the file of this process has, as the original's."""
    return f"Bonnie.{os.getpid()}"


def carry_out(
    target: _native.Target, url: str, bonnie: Bonnie, seed: int, most_s: float
) -> list[_native.BonniePhase]:
    """Carry the six phases out on the target of a URL; the files are removed. Raises ServerError."""
    spec = {
        "clients": bonnie.clients,
        "file": file_name(),
        "bytes": bonnie.size_bytes,
        "chunk_bytes": bonnie.chunk_bytes,
        "stdio_bytes": block_bytes(url),
        "seeks": bonnie.seeks,
        "seekers": bonnie.seekers,
        "seed": seed,
        "check": bonnie.check,
        "most_ns": int(most_s * 1e9),
    }
    try:
        return _native.bonnie(target, json.dumps(spec), secrets.randbits(_NONCE_BITS))
    except _native.AnswerError as error:
        raise ServerError(
            f"Bonnie could not be carried out at {url}: {error.args[2]}",
            hint=error.args[3] or "Check that the directory can be written, and has room for the file.",
        ) from error
