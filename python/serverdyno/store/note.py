"""What is kept of a run beyond its mixes, `run.json`: the shape that a note must have to be read at all.

Notes grow: a name that is not here is kept as it is, and all but `state` may be missing, as in notes of earlier
versions. What the figures mean is in docs/data-format.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from serverdyno.store.damage import damaged, read_object


class Part(BaseModel):
    """Types as JSON has them; more names than these may be there."""

    model_config = ConfigDict(strict=True)


class Session(Part):
    """What sessions of one kind agreed on with the server."""

    dialect: str
    signing: str | None
    encryption: str | None
    guest: bool
    max_read_bytes: int
    max_write_bytes: int
    leases: bool
    clients: int


class ClientCache(Part):
    """The cache that each client had."""

    asks_for: str | None
    redirector: str
    most_bytes: int
    page_bytes: int
    read_run_bytes: int
    write_run_bytes: int
    read_ahead_bytes: int
    most_deferred: int
    deferred_age_s: float


class Layer(Part):
    """A file system that files of the server lie on."""

    file_system: str
    options: list[str]
    device: str


class FsyncTimes(Part):
    """Of the disk's own fsync, in ms but for the count."""

    count: float
    p50: float
    p99: float
    max: float


class RunNote(Part):
    """A run's note."""

    state: Literal["begun", "done", "failed"]
    reason: str = ""
    hint: str | None = None
    from_mix: int = 1
    requests_answered: int | None = None
    requests_failed: int | None = None
    requests_by_server_count: int | None = None
    crashes: list[str] = []
    sessions: list[Session] = []
    client_cache: ClientCache | None = None
    disk_fsync_ms: FsyncTimes | None = None
    disk_fsync_after_ms: FsyncTimes | None = None
    syncs_unknown_because: str | None = None
    media: list[list[Layer]] = []


def read_note(path: Path) -> dict[str, Any]:
    """The note in a file, with all its names. Raises DamagedError, and DynoError where it can't be read."""
    note = read_object(path)
    try:
        RunNote.model_validate(note)
    except ValidationError as error:
        raise damaged(path, error) from error
    return note
