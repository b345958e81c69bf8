"""Settings of a private Samba, and their invalid combinations. `samba.py` implements the settings."""

from __future__ import annotations

import re
from typing import ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from serverdyno.errors import refuse_contradictions
from serverdyno.plan.protocols.smb import SMB, Dialect, wrong_dialects
from serverdyno.servers.disk_settings import DiskSettings

# The values are written into smb.conf unchanged.
SOCKET_OPTIONS = re.compile(r"([A-Z_]+(=[0-9]+)?( [A-Z_]+(=[0-9]+)?)*)?")


class SambaSettings(DiskSettings):
    protocol: ClassVar[str | None] = SMB.name
    cuts: ClassVar[frozenset[str]] = frozenset({"server", "processes"})

    min_dialect: Dialect = Field(
        default="2.0.2",
        description="server min protocol: the oldest dialect. SMB1 is not available, "
        "because today's servers refuse it.",
    )
    max_dialect: Dialect = Field(default="3.1.1", description="server max protocol: the newest dialect.")
    strict_sync: bool = Field(
        default=True,
        description="strict sync: call fsync before answering an SMB2 FLUSH. Off: Samba answers "
        "immediately, although the data are not on the disk. Samba's default is yes since 4.7.",
    )
    sync_always: bool = Field(
        default=False,
        description="sync always: call fsync before answering every write. Requires strict_sync.",
    )
    oplocks: bool = Field(default=True, description="oplocks: grant oplocks. Off: grant no leases either.")
    level2_oplocks: bool | None = Field(
        default=None,
        description="level2 oplocks: grant read-only oplocks. Requires oplocks. Default: as oplocks.",
    )
    kernel_oplocks: bool = Field(
        default=False,
        description="kernel oplocks: also break oplocks for processes on the server's "
        "machine. Samba's default is no.",
    )
    smb2_leases: bool | None = Field(
        default=None,
        description="smb2 leases: grant leases. Requires oplocks without kernel_oplocks. Default: on if "
        "both conditions hold.",
    )
    durable_handles: bool = Field(
        default=True,
        description="durable handles: a client's open files outlive its connection, if the client asks for "
        "that and has an oplock or lease that keeps the handle. Samba's default is yes.",
    )
    multi_channel: bool = Field(
        default=False,
        description="server multi channel support: a session may have several connections (`channels` in "
        "[smb]). Samba's default is yes. Samba then handles all connections of a client machine "
        "in one process.",
    )
    case_sensitive: bool = Field(
        default=True,
        description=(
            "case sensitive: treat names as case-sensitive. Samba's default, auto, reads the whole "
            "directory at every create to rule out another spelling of the name. This would measure "
            "directories, not the server. Windows servers don't do this, so the default here is on."
        ),
    )
    signing: Literal["auto", "required"] = Field(
        default="auto",
        description="server signing. auto: if the client asks for it. The server can't disable signing in "
        "SMB2 (smb.conf(5)); `smb.signing` in a suite can.",
    )
    encryption: Literal["off", "auto", "required"] = Field(
        default="auto",
        description="server smb encrypt: off; auto (Samba's default): if the client asks for it; required.",
    )
    socket_options: str = Field(
        default="TCP_NODELAY",
        description='socket options of smbd, such as "TCP_NODELAY SO_RCVBUF=65536 SO_SNDBUF=65536".',
    )
    log_level: int = Field(default=0, ge=0, le=10, description="log level of smbd. Samba's default is 0.")
    aio_read_size: int = Field(
        default=1,
        ge=0,
        le=2**30,
        description="aio read size, in bytes: larger reads run in threads; 0: no read does. Samba's default "
        "is 1.",
    )
    aio_write_size: int = Field(
        default=1,
        ge=0,
        le=2**30,
        description="aio write size, in bytes: larger writes run in threads; 0: no write does. Samba's "
        "default is 1.",
    )
    allocation_roundup_bytes: int = Field(
        default=0,
        ge=0,
        le=2**30,
        description="allocation roundup size: the multiple to which file sizes on disk are rounded up for "
        "clients. Windows XP asks again when a file grows beyond this size. Samba's default was "
        "1048576 in earlier versions and is 0 today.",
    )
    operation_counters: bool = Field(
        default=True,
        description="smbd profiling level = count: let the server count its requests by operation. Off: no "
        "counts.",
    )

    @field_validator("socket_options")
    @classmethod
    def plain_socket_options(cls, value: str) -> str:
        """Refuse values that could end the line in smb.conf."""
        if not SOCKET_OPTIONS.fullmatch(value):
            raise ValueError('must be names with numbers, such as "TCP_NODELAY SO_RCVBUF=65536"')
        return value

    @model_validator(mode="after")
    def makes_sense_together(self) -> Self:
        """Refuse all contradictions at once. Samba would silently change them."""
        wrong = {
            "sync_always requires strict_sync": self.sync_always and not self.strict_sync,
            "level2_oplocks requires oplocks": bool(self.level2_oplocks) and not self.oplocks,
            "smb2_leases requires oplocks": bool(self.smb2_leases) and not self.oplocks,
            "smb2_leases requires kernel_oplocks off": bool(self.smb2_leases) and self.kernel_oplocks,
            **wrong_dialects(self.min_dialect, self.max_dialect, encrypts=self.encryption == "required"),
            **self.wrong_disk(),
        }
        refuse_contradictions(wrong)
        return self

    @property
    def grants_level2(self) -> bool:
        return self.oplocks if self.level2_oplocks is None else self.level2_oplocks

    @property
    def grants_leases(self) -> bool:
        return self.oplocks and not self.kernel_oplocks if self.smb2_leases is None else self.smb2_leases
