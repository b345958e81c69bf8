"""Garage as a single node with one copy. `make servers-objects WITH=garage` builds it.

Metadata and data are on the volume. The admin API is off: Garage itself creates the layout, the key and the bucket.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from serverdyno.plan.protocols.access import US_EAST_1
from serverdyno.servers.base import Settings
from serverdyno.servers.local import version_line
from serverdyno.servers.object_server import BUCKET, ObjectServer, ObjectSettings, count_lines
from serverdyno.servers.process import LOG_NAME

CONFIGURATION = "garage.toml"
REQUESTS = "garage_api_common::generic_server"
"""The part of Garage that logs each request."""
REQUEST = rf"{REQUESTS}: \S+ (\(key \S+\) )?[A-Z]+ /"


class GarageSettings(ObjectSettings):
    data_fsync: bool = Field(
        default=False,
        description="Sync each block of an object, and its directory, before the PUT is acknowledged.",
    )
    metadata_fsync: bool = Field(
        default=False,
        description="Sync the metadata. With lmdb: at the end of each transaction. With sqlite: when its log is moved "
        "to the database.",
    )
    db_engine: Literal["lmdb", "sqlite"] = Field(default="lmdb", description="Database for the metadata.")
    block_size: int = Field(
        default=1 << 20,
        ge=1 << 12,
        le=1 << 30,
        description="Size in bytes of the blocks of an object. An object of less than 3,072 bytes is stored in the "
        "metadata.",
    )
    compression_level: int = Field(
        default=1, ge=0, le=22, description="zstd compression level of blocks. 0: no compression."
    )
    access_log: bool = Field(
        default=False,
        description="Log each request, and count the requests in this log. Default: off. Garage's default is on.",
    )


class Garage(ObjectServer[GarageSettings]):
    name: ClassVar[str] = "garage"
    program_name: ClassVar[str] = "garage"
    summary: ClassVar[str] = "Garage, as a single node"
    settings_type: ClassVar[type[Settings]] = GarageSettings
    crash_words: ClassVar[re.Pattern[str] | None] = re.compile("^=+ PANIC ")

    @staticmethod
    def version_of(program: Path) -> str:
        words = version_line(program, "--version").split()
        return f"Garage {words[1].removeprefix('cargo:').removeprefix('v') if len(words) > 1 else 'unknown'}"

    def prepare(self) -> None:
        if self.process is None:
            self._rpc_port = self.choose_port()
        super().prepare()

    def configuration(self) -> dict[str, str]:
        settings = self.settings
        text = f"""\
metadata_dir = "{self.data}/metadata"
data_dir = "{self.data}/data"
metadata_fsync = {str(settings.metadata_fsync).lower()}
data_fsync = {str(settings.data_fsync).lower()}
db_engine = "{settings.db_engine}"
block_size = {settings.block_size}
compression_level = {settings.compression_level or '"none"'}
replication_factor = 1
rpc_bind_addr = "{self.host}:{self._rpc_port}"
rpc_public_addr = "{self.host}:{self._rpc_port}"

[s3_api]
api_bind_addr = "{self.host}:{self.port}"
s3_region = "{US_EAST_1}"
"""
        return {CONFIGURATION: text, **super().configuration()}

    def arguments(self) -> list[str]:
        return [
            "--config",
            str(self.directory / CONFIGURATION),
            "server",
            "--single-node",
            "--default-bucket",
        ]

    def environment(self) -> dict[str, str]:
        """Return the secrets, which a command line would reveal, the bucket, and the number of threads."""
        key_id, secret, _ = self.key
        return {
            "GARAGE_DEFAULT_ACCESS_KEY": key_id,
            "GARAGE_DEFAULT_SECRET_KEY": secret,
            "GARAGE_DEFAULT_BUCKET": BUCKET,
            "GARAGE_RPC_SECRET": hashlib.sha256(f"rpc {self.secret}".encode()).hexdigest(),
            "RUST_LOG": f"info,{REQUESTS}={'info' if self.settings.access_log else 'warn'}",
            "NO_COLOR": "1",
            "TOKIO_WORKER_THREADS": str(self.processors),
            "HOME": str(self.directory),
        }

    def requests_served(self) -> int | None:
        """Return the number of requests in the log, including the readiness check's; None without a log of requests."""
        return count_lines(self.directory / LOG_NAME, REQUEST) if self.settings.access_log else None

    def acknowledged(self) -> str:
        settings = self.settings
        blocks = "synced, with their directory," if settings.data_fsync else "written without a sync"
        loss = "so a power cut can lose it"
        if not settings.metadata_fsync:
            metadata = f"its metadata are not synced, {loss}"
        elif settings.db_engine == "sqlite":
            metadata = f"its metadata are in SQLite's log, which is not synced (synchronous = NORMAL), {loss}"
        else:
            page = "the last page of a transaction, which the next transaction syncs (MDB_NOMETASYNC)"
            metadata = f"its metadata are synced, except for {page}, {loss}"
        return f"A PUT is acknowledged once its blocks are {blocks} and {metadata}."
