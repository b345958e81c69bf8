"""The note of a run, `run.json`, as one model for the runner and the report.

Unknown fields are kept. All fields except `state` may be missing, as in earlier versions. docs/data-format.md explains
the figures.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=0, lt=2**63)]
Figure = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Part(BaseModel):
    """Base class that accepts only JSON's types. Further fields are allowed."""

    model_config = ConfigDict(strict=True, frozen=True, extra="allow", defer_build=True)

    def as_json(self) -> dict[str, Any]:
        """Return a dictionary of the fields that were set."""
        return self.model_dump(mode="json", exclude_unset=True)


class Session(Part):
    """Sessions with equal negotiated parameters. None: the protocol lacks the parameter, or it was not recorded."""

    protocol: str = "smb"
    dialect: str
    signing: str | None = None
    encryption: str | None = None
    guest: bool = False
    authentication: str | None = None
    """The authentication method of an SMB user; None for guests and if not recorded."""
    max_read_bytes: Count
    max_write_bytes: Count
    leases: bool = False
    directory_leases: bool | None = None
    """Whether the server grants directory leases; None if not recorded or not in the protocol."""
    transport: str | None = None
    """The transport if it is not TCP: "udp" for NFSv3."""
    channels: Count | None = None
    """Connections of an SMB session, if it has several."""
    slots: Count | None = None
    """Largest number of concurrent requests in an NFSv4 session."""
    lease_s: Count | None = None
    """Time without a request after which an NFSv4 server forgets the client."""
    clients: Count


class ClientCache(Part):
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
    """A block device below a file system. `write_cache`: as reported by the kernel; None if it reports nothing."""

    name: str
    write_cache: str | None


class LayerNote(Part):
    """A file system below the server's files. `unfollowed`: why the layer below it is unknown."""

    file_system: str
    options: list[str]
    device: str
    devices: list[Device] = []
    unfollowed: str = ""


class FsyncTimes(Part):
    """Times of the disk's own fsync in ms, and their count."""

    count: Figure
    p50: Figure
    p99: Figure
    max: Figure


class RunNote(Part):
    """The note of a run. None: not measured or not recorded.

    `begun`: the run is still running or was killed. `lost`: the run was killed after its last level, so its levels are
    complete, but the counts read at its end are lost.
    """

    state: Literal["begun", "done", "failed", "lost"]
    reason: str = ""
    hint: str | None = None
    from_level: Annotated[int, Field(ge=1, lt=2**63)] = 1
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
    remedies: dict[str, str] | None = None
    """The data plane's hint for each kind of error that the levels counted, if it has one."""

    @property
    def is_final(self) -> bool:
        """Return whether the note will not change any more."""
        return self.state in ("done", "failed", "lost")

    def of_the_disk(self) -> dict[str, Any]:
        """Return the fields noted before the first level, without which flushes can't be judged."""
        names = (
            "disk_fsync_ms",
            "syncs_unknown_because",
            "media",
            "synchronous",
            "volume_fsync_ms",
            "preloaded",
        )
        return {name: getattr(self, name) for name in names if name in self.model_fields_set}
