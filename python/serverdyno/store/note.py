"""What is kept of a run beyond its mixes, `run.json`: one model, from the runner that writes it to the report.

Notes grow: a name that is not here is kept as it is, and all but `state` may be missing, as in notes of earlier
versions. What the figures mean is in docs/data-format.md.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=0, lt=2**63)]
Figure = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Part(BaseModel):
    """Types as JSON has them; more names than these may be there."""

    model_config = ConfigDict(strict=True, frozen=True, extra="allow", defer_build=True)

    def as_json(self) -> dict[str, Any]:
        """What was said, and nothing of what was left out."""
        return self.model_dump(mode="json", exclude_unset=True)


class Session(Part):
    """What sessions of one kind agreed on with the server. Of a protocol without signing and leases, none were."""

    protocol: str = "smb"
    dialect: str
    signing: str | None = None
    encryption: str | None = None
    guest: bool = False
    authentication: str | None = None
    """How the user of an SMB server was proven; None of a guest, and where it was not recorded."""
    max_read_bytes: Count
    max_write_bytes: Count
    leases: bool = False
    directory_leases: bool | None = None
    """Whether the server leases directories; None where it was not recorded, and of a protocol without."""
    transport: str | None = None
    """What carries requests where it is not TCP: "udp" of NFSv3."""
    channels: Count | None = None
    """Connections of an SMB session, where it has several."""
    slots: Count | None = None
    """Requests that a session may have under way: of NFSv4, as the next."""
    lease_s: Count | None = None
    """After so long without a request the server forgets the client."""
    clients: Count


class ClientCache(Part):
    """The cache that each client had."""

    asks_for: str | None
    redirector: str
    most_bytes: Count
    page_bytes: Count
    read_run_bytes: Count
    write_run_bytes: Count
    read_ahead_bytes: Count
    most_deferred: Count
    deferred_age_s: Figure


class Device(Part):
    """A block device below a file system. `write_cache`: as the kernel says it; None: it says nothing."""

    name: str
    write_cache: str | None


class LayerNote(Part):
    """A file system that files of the server lie on. `unfollowed`: why it is not known what is below it."""

    file_system: str
    options: list[str]
    device: str
    devices: list[Device] = []
    unfollowed: str = ""


class FsyncTimes(Part):
    """Of the disk's own fsync, in ms but for the count."""

    count: Figure
    p50: Figure
    p99: Figure
    max: Figure


class RunNote(Part):
    """A run's note.

    `begun`: the run goes on, or was killed. `lost`: it was killed after its last mix, so that its mixes are whole and
    what is noted at the end of a run can't be known any more. What is None was not measured, or not noted.
    """

    state: Literal["begun", "done", "failed", "lost"]
    reason: str = ""
    hint: str | None = None
    from_mix: Annotated[int, Field(ge=1, lt=2**63)] = 1
    requests_answered: Count | None = None
    requests_failed: Count | None = None
    requests_by_server_count: Count | None = None
    crashes: list[str] = []
    cpu_by_member_s: dict[str, Figure | None] | None = None
    sessions: list[Session] | None = None
    client_cache: ClientCache | None = None
    disk_fsync_ms: FsyncTimes | None = None
    disk_fsync_after_ms: FsyncTimes | None = None
    syncs_unknown_because: str | None = None
    media: list[list[LayerNote]] | None = None
    synchronous: list[bool | None] | None = None
    volume_fsync_ms: list[Figure | None] | None = None
    preloaded: list[str] | None = None
    syncs_by_kernel: Count | None = None
    syncs_by_server: Count | None = None

    @property
    def is_final(self) -> bool:
        """Whether nothing more will be known of the run."""
        return self.state in ("done", "failed", "lost")

    def of_the_disk(self) -> dict[str, Any]:
        """What a run notes before its first mix, without which its mixes can't be judged."""
        names = (
            "disk_fsync_ms",
            "syncs_unknown_because",
            "media",
            "synchronous",
            "volume_fsync_ms",
            "preloaded",
        )
        return {name: getattr(self, name) for name in names if name in self.model_fields_set}
