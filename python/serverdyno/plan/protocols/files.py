"""Files: an application works on its own files on a file server.

Throughput is in Mbit/s, or in operations/s for metadata, contention and failover, which move few bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from serverdyno import _native, units, wording
from serverdyno.plan.protocols import load_file
from serverdyno.plan.protocols import scenario as scenarios
from serverdyno.plan.protocols.bonnie import BONNIE, BonnieSettings
from serverdyno.plan.protocols.contention import CONTENTION, ContentionSettings
from serverdyno.plan.protocols.failover import FAILOVER, FailoverSettings
from serverdyno.plan.protocols.metadata import METADATA, MetadataSettings
from serverdyno.plan.protocols.model import SectionModel, Spelled
from serverdyno.plan.protocols.scenario import SCENARIO, Scenario
from serverdyno.plan.protocols.streams import STREAMS, StreamsSettings
from serverdyno.plan.protocols.work import Cut, Fact, LevelCounts, PlannedStep, Terms, Work, stayed

CLIENTS_DIRECTORY = _native.Workspaces.DIRECTORY
"""Prefix of the directory of each load in a share. It contains one directory per client."""
LOCAL_BLOCK_BYTES, REMOTE_BLOCK_BYTES = 4096, 1 << 20
"""Size of stdio's calls: st_blksize of a local file system, wsize of an NFS client."""
IN_TIME = (STREAMS, METADATA, CONTENTION, FAILOVER)
WHEN_DONE = (BONNIE, SCENARIO)
OWN = (*IN_TIME, *WHEN_DONE)
OwnSettings = (
    StreamsSettings | MetadataSettings | ContentionSettings | FailoverSettings | BonnieSettings | Scenario
)
"""Settings of the workloads that have their own table: all except the disk mix and load files.

Of the workloads whose levels end at a given time, only contention has a client cache.
"""
IN_ROOT = "The user needs the right to create, write and delete files in the root of every share."


class FilesSettings(SectionModel):
    """How a client uses files: its cache, its workspace and its pace.

    `cache` is the right to cache that the client requests from the server; with "none", all reads and writes go to the
    server. `redirector` "xp" queries paths before deletes and renames, as Windows XP did. `dormant_files` is the number
    of closed files that are kept open, and `dormant_s` how long they stay open (Windows' DormantFileLimit and
    ScavengerTimeLimit). With `directory_leases` the client also asks for leases of directories (SMB 3), and caches
    listings and look-ups. `operations_per_client_s` limits the pace of each client. The workload "loadfile" replays
    `load_file`. Its digest, `load_file_sha256`, is noted when an experiment begins, so that no other file is replayed
    or compared instead. With `save_workspace` the files stay from level to level; they are always removed after the
    last one. `streams`, `metadata`, `contention` and `failover` are the settings of the workload of that name, which
    uses no setting of the disk mix.
    """

    cache: Literal["none", "oplocks", "leases"] = Field(
        default="leases",
        description="The right to cache that a client asks the server for. none: clients don't cache.",
    )
    redirector: Literal["xp", "plain"] = Field(
        default="plain", description="xp: clients query paths before deletes and renames, as Windows XP did."
    )
    dormant_files: int = Field(
        default=45, ge=0, le=100_000, description="Number of closed files that a client keeps open."
    )
    dormant_s: float = Field(
        default=10, ge=0, le=3600, description="Time for which a client keeps a closed file open."
    )
    directory_leases: bool = Field(
        default=False,
        description="With cache leases over SMB 3, also ask for leases of directories. A client then "
        "caches listings and look-ups until the server revokes the lease.",
    )
    workspace_bytes: int = Field(
        default=20 * 2**20, ge=15 * 2**20, le=2**40, description="Total size of each client's files."
    )
    save_workspace: bool = Field(default=True, description="Keep the files from level to level.")
    legacy_seed_reads: bool = Field(
        default=False, description="Use the sizes of bulk reads in the oldest captures."
    )
    true_offsets: bool = Field(
        default=False,
        description="Use the positions that the application intended, not those in the captures.",
    )
    operations_per_client_s: float | None = Field(
        default=None, gt=0, description="Maximum number of operations per second that a client starts."
    )
    load_file: str | None = Field(default=None, description="A dbench load file for the workload loadfile.")
    load_file_sha256: Annotated[str, Spelled("[0-9a-f]{64}", "64 hexadecimal digits")] | None = Field(
        default=None, description="Digest of the load file, recorded when an experiment begins."
    )
    streams: StreamsSettings | None = Field(default=None, description="Parameters of the workload streams.")
    metadata: MetadataSettings | None = Field(
        default=None, description="Parameters of the workload metadata."
    )
    contention: ContentionSettings | None = Field(
        default=None, description="Parameters of the workload contention."
    )

    failover: FailoverSettings | None = Field(
        default=None,
        description="Parameters of the workload failover.",
    )
    bonnie: BonnieSettings | None = Field(default=None, description="Parameters of the workload bonnie.")
    scenario: Scenario | None = Field(default=None, description="Files and steps of the workload scenario.")

    @property
    def own(self) -> OwnSettings | None:
        """The settings of the workload's own table; None if it has none."""
        return (
            self.streams or self.metadata or self.contention or self.failover or self.bonnie or self.scenario
        )

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the workload, including the load file's digest once an experiment has noted it."""
        if self.bonnie is not None or self.scenario is not None:
            return (self.bonnie or self.own).parameters()  # type: ignore[union-attr]
        if self.own is not None:
            of_client = {"dormant_files", "dormant_s"} if self.contention else {"save_workspace"}
            if self.failover is not None:
                of_client = set()
            if self.directory_leases:
                of_client |= {"directory_leases", "dormant_files", "dormant_s"}
            shared = self.model_dump(include={"cache", "operations_per_client_s", *of_client})
            return shared | self.own.parameters()
        found = self.model_dump(exclude={*OWN})
        if not self.directory_leases:
            del found["directory_leases"]
        if self.load_file_sha256 is None:
            del found["load_file_sha256"]
        return found


def block_bytes(url: str) -> int:
    """Return the size of the reads and writes that programs issue on the file system of a URL."""
    return LOCAL_BLOCK_BYTES if url.startswith("file:") else REMOTE_BLOCK_BYTES


def mbit_moved_per_s(record: LevelCounts) -> float:
    """Return the application data, in Mbit/s, of the clients that stayed until the window closed.

    A client with an error leaves the level, and its bytes are not counted (as in NetBench's levels).
    """
    moved = sum((row.bytes_read or 0) + row.bytes_written for row in record.by_client if stayed(row, record))
    return units.mbit_per_s(moved, record.window_s)


def operations_per_s(record: LevelCounts) -> float:
    return record.operations / record.window_s


def stayed_operations_per_s(record: LevelCounts) -> float:
    """Return successful operations per second of the clients that stayed until the window closed."""
    return sum(row.operations for row in record.by_client if stayed(row, record)) / record.window_s


class Files(Work[FilesSettings]):
    """The disk mix, a replayed load file, streams, metadata, contention, failover, Bonnie, or a scenario."""

    name = "files"
    workloads: ClassVar[Mapping[str, str]] = dict.fromkeys(("diskmix", "loadfile", *OWN), IN_ROOT)
    section = "files"
    settings_type = FilesSettings
    drawn_anew = False
    has_durability = True
    shows_clients = True
    usage = "to measure files, use a plan, or for a single run dyno scenario NAME -d {url} and dyno bonnie -d {url}"
    terms = Terms(
        unit="Mbit/s",
        column="mbit_s",
        written=wording.significant,
        throughput=mbit_moved_per_s,
        second_unit="operations/s",
        second_column="operations_s",
        second_title="Throughput in operations/s of the application",
        second_written=wording.rate,
        second=operations_per_s,
        below_cache=True,
        operation="operation",
        classes="operation",
        throughput_meaning=(
            "Mbit/s count the bytes that applications read and wrote, summed over the clients that stayed until the "
            "end of the level. Bytes of clients that left after an error are excluded. The bytes are counted above "
            "the client's cache, so they include operations that the cache answers itself. The bytes between clients "
            "and server are shown next to it."
        ),
        server_of_arrivals="client",
    )

    def terms_of(self, workload: str) -> Terms:
        """Return terms in operations for metadata, contention and failover, which move few bytes."""
        in_operations = {METADATA: METADATA_TERMS, CONTENTION: IN_OPERATIONS, FAILOVER: IN_OPERATIONS}
        return in_operations.get(workload, self.terms)

    def problems(
        self, settings: FilesSettings, workload: str, *, one_thread: bool, at_once: bool
    ) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Yield missing settings, and settings that the workload can't use. Only streams may overlap operations."""
        if (workload == "loadfile") != (settings.load_file is not None):
            yield ("files", "load_file"), "is required for the workload loadfile, and only for it"
        for name in OWN:
            if name != workload and getattr(settings, name) is not None:
                yield ("files", name), f"requires the workload {name}"
        if workload != STREAMS and not one_thread:
            why = "a file client has one thread; only streams can have several blocks in flight"
            yield ("threads",), why
        if settings.directory_leases and settings.cache != "leases":
            yield ("files", "directory_leases"), 'requires files.cache = "leases"'
        if workload in OWN:
            yield from _problems_of_own(settings, workload)
        if workload in IN_TIME:
            yield from _problems_of_clients(settings, workload, one_thread=one_thread, at_once=at_once)

    def takes_open_load(self, workload: str) -> bool:
        """Return True for streams and metadata, whose requests do not depend on answers."""
        return workload in (STREAMS, METADATA)

    def cut(self, settings: FilesSettings) -> Cut | None:
        """Return the outage of the workload failover; None for other workloads."""
        return None if settings.failover is None else settings.failover.cut_off

    def planned_steps(self, settings: FilesSettings, clients: int) -> Sequence[PlannedStep]:
        """Return Bonnie's phases, or the passes and phases of a scenario's steps."""
        done = settings.bonnie or settings.scenario
        return () if done is None else done.planned(clients)

    def scaled(self, settings: FilesSettings, scale: float) -> FilesSettings:
        """Return the settings with Bonnie's file, or the number and size of a scenario's files, scaled."""
        if settings.bonnie is not None:
            return settings.model_copy(update={BONNIE: settings.bonnie.scaled(scale)})
        if settings.scenario is not None:
            return settings.model_copy(update={SCENARIO: scenarios.scaled(settings.scenario, scale)})
        return settings

    def undisturbed(self, settings: FilesSettings) -> FilesSettings:
        """Return the settings without cut connections. Only the runner can stop a server."""
        if settings.failover is None:
            return settings
        failover = settings.failover.model_copy(update={"cut": "server"})
        return settings.model_copy(update={"failover": failover})

    def workload_section(self, workload: str, settings: FilesSettings) -> dict[str, Any]:
        """Return the workload with its parameters. A load file is sent next to the document."""
        if settings.failover is not None:
            return {"name": workload, **settings.failover.section()}
        if settings.own is not None:
            return {"name": workload, **settings.own.model_dump()}
        if workload != "diskmix":
            return {"name": workload}
        parameters = {"workspace_bytes", "legacy_seed_reads", "true_offsets"}
        return {"name": workload, **settings.model_dump(include=parameters)}

    def client_section(self, settings: FilesSettings, *, last_level: bool) -> dict[str, Any]:
        """Return the cache settings, and whether the workspace stays after the level."""
        cache = settings.model_dump(
            include={"cache", "redirector", "dormant_files", "dormant_s", "directory_leases"}
        )
        return {**cache, "keep_workspace": settings.save_workspace and not last_level}

    def operations_per_client_s(self, settings: FilesSettings) -> float | None:
        return settings.operations_per_client_s

    def load_file(self, settings: FilesSettings) -> _native.LoadFile | None:
        """Return the load file. Raises UserError if its digest differs from the noted one."""
        return load_file.read(settings)

    def packed_load_file(self, settings: FilesSettings) -> str | None:
        return load_file.packed(settings)

    def workspace_bytes(self, settings: FilesSettings) -> int:
        return (settings.own or settings).workspace_bytes

    def with_noted_inputs(self, settings: FilesSettings) -> FilesSettings:
        """Return the settings with the absolute path and the SHA-256 of the load file."""
        return load_file.noted(settings)

    def facts(self, settings: FilesSettings, client_cache: str | None) -> tuple[Fact, ...]:
        """Return the clients' actions if the workload has its own settings, and their cache, pace and workspace."""
        most = wording.seconds(settings.dormant_s)
        dormant = f"it keeps {settings.dormant_files} closed files open, for at most {most}"
        cache = (
            "None: every operation reaches the server."
            if settings.cache == "none"
            else client_cache
            or f"Based on {settings.cache}, like the redirector of a workstation ({settings.redirector}); {dormant}."
        )
        pace = (
            "Clients send the next operation as soon as the server answers."
            if settings.operations_per_client_s is None
            else f"At most {wording.rate(settings.operations_per_client_s)} operations/s per client."
        )
        kept = settings.save_workspace and settings.failover is None
        stays = "stays from level to level" if kept else "is removed after each level"
        own = () if settings.own is None else (("Clients", settings.own.described()),)
        if settings.contention is not None:
            return (
                *own,
                ("Client cache", cache),
                ("Pace", pace),
                ("Shared files", settings.contention.kept()),
            )
        return (
            *own,
            ("Client cache", cache),
            ("Pace", pace),
            (
                "Workspace",
                f"{self.workspace_bytes(settings):,} bytes per client, in the client's own directory. It is created "
                f"before the measurement and {stays}.",
            ),
        )

    def verification(self, checked: str) -> str:
        """Return the sentence that says that lengths and contents of reads are checked."""
        return (
            f"The length of each read, and the content of {checked} of the reads, byte by byte, against the "
            "data last written there."
        )


def _problems_of_own(settings: FilesSettings, workload: str) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield the problems of the workload's own table."""
    own: OwnSettings | None = getattr(settings, workload)
    if own is None:
        yield ("files", workload), f"is missing, but the workload {workload} requires it"
        return
    for key, why in own.problems():
        path = key if isinstance(key, tuple) else (key,)
        yield ("files", workload, *path), why


def _problems_of_clients(
    settings: FilesSettings, workload: str, *, one_thread: bool, at_once: bool
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield settings of clients that a workload with its own table can't use."""
    looks = settings.metadata is not None and settings.metadata.looks > 0
    if settings.cache != "none" and workload != CONTENTION and not looks:
        yield ("files", "cache"), f'must be "none": {workload} measures the server, not client caches'
    if settings.redirector != "plain":
        yield ("files", "redirector"), f'must be "plain" for {workload}'
    if workload == STREAMS and not (one_thread or at_once):
        yield (
            ("threads",),
            "must be 1 if operations are scheduled, with think_time_s, operations_per_client_s or open",
        )


IN_OPERATIONS = replace(
    Files.terms,
    unit="operations/s",
    column="operations_s",
    written=wording.rate,
    throughput=stayed_operations_per_s,
    second_unit="Mbit/s",
    second_column="mbit_s",
    second_title="Bytes that applications read and wrote, in Mbit/s",
    second_written=wording.significant,
    second=mbit_moved_per_s,
)
METADATA_TERMS = replace(IN_OPERATIONS, in_phases=True)
FILES = Files()
