"""NFS-Ganesha with its VFS back end and its own complete configuration: no file in /etc/ganesha is read.

It runs in a network namespace with its own /run. If other machines have to reach it, it uses one address of this
machine and free ports. For NFSv3, a private rpcbind runs next to it, because Ganesha 4.3 refuses NFSv3 if it can't
register with rpcbind. `volume_server.py` provides the volumes, as for Samba.
"""

from __future__ import annotations

import pwd
import re
from pathlib import Path
from typing import ClassVar, Self

from pydantic import Field, model_validator

from serverdyno.errors import ServerError, refuse_contradictions
from serverdyno.plan.protocols.nfs import (
    NFS,
    NfsVersion,
    Transport,
    every_export_answers,
    query_of,
    wrong_transport,
)
from serverdyno.servers import ganesha_counters
from serverdyno.servers.base import Access, Settings
from serverdyno.servers.disk_settings import DiskSettings
from serverdyno.servers.file_server import may_unshare
from serverdyno.servers.host_changes import HostChanges
from serverdyno.servers.local import find_program, version_line
from serverdyno.servers.volume_server import VolumeServer

CONFIGURATION = "ganesha.conf"
SCRIPT = "run.sh"
RUN = Path("/run")
NFS_PORT = 2049
MOUNT_PORT = 20048
NETCONFIG = "netconfig"
LOCAL_ALONE = "local tpi_cots_ord - loopback - - -\n"
"""netconfig(5) that makes rpcbind listen only on its socket in /run, because port 111 may be in use."""


class GaneshaSettings(DiskSettings):
    protocol: ClassVar[str | None] = NFS.name

    nfs_version: NfsVersion = Field(
        default="3",
        description="The version of NFS that the server offers and that clients speak: NFS_Protocols, and "
        "vers= of a mount. The server offers no other version.",
    )
    proto: Transport = Field(
        default="tcp",
        description="The transport of all requests, including MOUNT: Enable_UDP, and proto= of a mount. udp "
        "requires NFSv3 and limits transfers to 32 KiB.",
    )
    threads: int = Field(
        default=200,
        ge=2,
        le=10_000,
        description="RPC_Ioq_ThrdMax: the number of threads that execute requests. This is Ganesha's "
        "default.",
    )
    max_connections: int = Field(
        default=10_000,
        ge=8,
        le=1_000_000,
        description="RPC_Max_Connections: maximum number of NFS and MOUNT connections together; Ganesha "
        "resets further connections. An NFSv3 client briefly has one of each. Ganesha's default is "
        "1024.",
    )
    max_transfer_bytes: int = Field(
        default=1048576,
        ge=4096,
        le=67108864,
        description="MaxRead, MaxWrite, PrefRead and PrefWrite: maximum number of bytes per READ or "
        "WRITE. Ganesha's default is 67108864; Serverdyno's clients never ask for more than "
        "1048576.",
    )
    commit_always: bool = Field(
        default=False,
        description="NFS_Commit: call fsync before the answer to every WRITE, even if the client does not "
        "ask for it. Ganesha's default is off.",
    )
    skip_syncs: bool = Field(
        default=False,
        description="Make each fsync and fdatasync of Ganesha succeed without any effect (seccomp), as "
        "eatmydata and the export option async of Linux's NFS server do. Ganesha itself has no "
        "setting that ignores COMMIT.",
    )
    own_counters: bool = Field(
        default=False,
        description="Enable_FULLV3_Stats or Enable_FULLV4_Stats: let Ganesha count its requests by name, to "
        "compare the counts with those of the clients. This needs a private D-Bus (dbus-daemon) "
        "and some CPU time.",
    )

    @model_validator(mode="after")
    def makes_sense_together(self) -> Self:
        """Refuse all contradictions at once."""
        wrong = {
            **self.wrong_disk(),
            **wrong_transport(self.nfs_version, self.proto),
            "skip_syncs removes all syncs, so fsync_delay_ms and commit_always have no effect: remove them": (
                self.skip_syncs and (self.fsync_delay_ms > 0 or self.commit_always)
            ),
            'network "loopback" is not possible: Ganesha needs its own rpcbind and the standard port': self.network
            == "loopback",
        }
        refuse_contradictions(wrong)
        return self


class Ganesha(VolumeServer[GaneshaSettings]):
    name: ClassVar[str] = "ganesha"
    program_name: ClassVar[str] = "ganesha.nfsd"
    summary: ClassVar[str] = "NFS-Ganesha: NFSv3, NFSv4.1, NFSv4.2"
    debian_package: ClassVar[str | None] = "nfs-ganesha-vfs"
    settings_type: ClassVar[type[Settings]] = GaneshaSettings
    crash_words: ClassVar[re.Pattern[str] | None] = re.compile("Segmentation fault|Aborting")
    mount_port = MOUNT_PORT

    @staticmethod
    def version_of(program: Path) -> str:
        release = re.search(r"V?(\d+(\.\d+)+)", version_line(program, "-v"))
        return f"NFS-Ganesha {release[1] if release else 'unknown'}"

    @property
    def exports(self) -> tuple[str, ...]:
        """Return the paths that clients mount: `/volume1` ..."""
        return tuple(f"/{name}" for name in self.volumes.names)

    @property
    def url(self) -> str:
        """Return the URL. It is valid after `prepare` and may change in `ready`."""
        settings = self.settings
        query = query_of(settings.nfs_version, settings.proto, self.mount_port)
        return f"nfs://{self.host}:{self.port}/{query}"

    def access(self) -> Access:
        """Return the exports and their address. They are valid after `start`."""
        namespace = self.process.network_namespace if self.process else None
        token = self.consent_token if self.shows_consent else None
        return Access(self.url, None, None, self.exports, namespace, consent_token=token)

    def choose_port(self) -> int:
        """Return NFS's standard port if no other program can use it; otherwise a free port."""
        if self.own_network:
            return NFS_PORT
        port = super().choose_port()
        self.mount_port = port
        while self.mount_port == port:
            self.mount_port = super().choose_port()
        return port

    def command(self) -> list[str]:
        """Return a script that starts rpcbind (for NFSv3) in the background and then becomes Ganesha."""
        return ["/bin/sh", str(self.directory / SCRIPT)]

    def process_count(self) -> int:
        """Return the number of processes: Ganesha, rpcbind for NFSv3, and the D-Bus daemon for the counters."""
        return 1 + self._has_rpcbind + self.settings.own_counters

    @property
    def _has_rpcbind(self) -> bool:
        """Return whether rpcbind is needed. NFSv4 has neither MOUNT nor a port mapper."""
        return self.settings.nfs_version == "3"

    def host_changes(self) -> HostChanges | None:
        """Add a private /run, and syncs without effect if requested, to the changes of every file server."""
        found = super().host_changes()
        return None if found is None else {**found, "own_run": True, "skip_syncs": self.settings.skip_syncs}

    def check_paths(self) -> None:
        """Check for rpcbind, the right to create namespaces, and that no needed file is below the hidden /run."""
        super().check_paths()
        if self._has_rpcbind and find_program("rpcbind") is None:
            raise ServerError("rpcbind is not installed", hint="apt-get install rpcbind")
        if self.settings.own_counters and (missing := ganesha_counters.missing_programs()):
            raise ServerError(
                f"own_counters requires {' and '.join(missing)}, which is not installed",
                hint=f"apt-get install {ganesha_counters.PACKAGES}",
            )
        if not may_unshare():
            raise ServerError(
                "Ganesha needs its own namespaces, which only root can create",
                hint="Run as root.",
            )
        for place in (self.directory, self.volumes.root):
            if place.is_relative_to(RUN):
                raise ServerError(
                    f"Ganesha can't see {place}, because dyno gives it a private {RUN}",
                    hint=f"Set TMPDIR to a directory that is not below {RUN}.",
                )
        self.check_place("Ganesha")

    def answers_as_ours(self) -> bool:
        """Return whether each export can be mounted. `LocalServer` has checked which process listens."""
        return every_export_answers(self.access())

    def configuration(self) -> dict[str, str]:
        files = {CONFIGURATION: self._configuration(), SCRIPT: self._script()}
        if self.settings.own_counters:
            files[ganesha_counters.CONFIGURATION] = ganesha_counters.bus_configuration()
        return files if self.own_network else {**files, NETCONFIG: LOCAL_ALONE}

    def _script(self) -> str:
        options = f'-F -f "{self.directory / CONFIGURATION}" -p "{self.directory}/ganesha.pid" -L STDERR'
        return "\n".join(
            [
                "set -eu",
                *([self._rpcbind()] if self._has_rpcbind else []),
                *(ganesha_counters.script_lines(self.directory) if self.settings.own_counters else []),
                self.wait_for_volumes,
                f'exec "{self.program}" {options}',
                "",
            ]
        )

    def _rpcbind(self) -> str:
        """Return the line that starts rpcbind. Without a network namespace, rpcbind listens only on its socket."""
        program = f'"{find_program("rpcbind")}"'
        if self.own_network:
            return program
        hide = f'mount --bind "{self.directory / NETCONFIG}" /etc/netconfig'
        return f"unshare --mount /bin/sh -c '{hide} && exec {program}'"

    @property
    def _protocols(self) -> int:
        """Return the major version of NFS, because Ganesha always serves all minor versions."""
        return int(self.settings.nfs_version.partition(".")[0])

    def _configuration(self) -> str:
        account = pwd.getpwnam(self.user)
        size = self.settings.max_transfer_bytes
        blocks = [
            _block(
                "NFS_CORE_PARAM",
                NFS_Protocols=self._protocols,
                NFS_Port=self.port,
                MNT_Port=self.mount_port,
                **({"Bind_addr": self.host} if self.is_elsewhere else {}),
                Enable_NLM=False,
                Enable_RQUOTA=False,
                Enable_UDP=self.settings.proto == "udp",
                mount_path_pseudo=True,
                RPC_Ioq_ThrdMax=self.settings.threads,
                RPC_Max_Connections=self.settings.max_connections,
                inner=f"Enable_FULLV{self._protocols}_Stats = true;" if self.settings.own_counters else "",
            ),
            _block("NFSv4", RecoveryRoot=f'"{self.directory}"', Graceless=True),
            _block("LOG", Default_Log_Level="EVENT"),
        ]
        for number, name in enumerate(self.volumes.names, start=1):
            blocks.append(
                _block(
                    "EXPORT",
                    Export_Id=number,
                    Path=f'"{self.volumes.top / name}"',
                    Pseudo=f"/{name}",
                    Protocols=self._protocols,
                    Transports="UDP, TCP" if self.settings.proto == "udp" else "TCP",
                    Access_Type="RW",
                    SecType="sys",
                    Squash="All_Squash",
                    Anonymous_Uid=account.pw_uid,
                    Anonymous_Gid=account.pw_gid,
                    MaxRead=size,
                    MaxWrite=size,
                    PrefRead=size,
                    PrefWrite=size,
                    NFS_Commit=self.settings.commit_always,
                    inner="FSAL { Name = VFS; }",
                )
            )
        return "\n".join(blocks)

    def notes(self) -> list[str]:
        flush = (
            "COMMIT and stable writes are answered without a sync (skip_syncs), so a power cut loses "
            "flushed data."
            if self.settings.skip_syncs
            else "Every WRITE is answered after fsync of its file (NFS_Commit = true)."
            if self.settings.commit_always
            else "COMMIT, and a WRITE that asks for stable storage, is answered after fsync of its file."
        )
        delay = self.settings.fsync_delay_ms
        return [
            flush,
            self.volumes.description(),
            f"Files are created as the user {self.user}, whichever user the client names (All_Squash).",
            f"Network: {'its own namespace' if self.own_network else f'the address {self.host}'}"
            f"{', with its own rpcbind, which is included in CPU time and memory' if self._has_rpcbind else ''}.",
            "Locks (NLM) are not offered."
            if self._has_rpcbind
            else "Ganesha grants no delegations on this back end (VFS).",
            *(
                [f"Each fsync and fdatasync takes {delay:g} ms longer, because the keeper delays it."]
                if delay
                else []
            ),
        ]

    def requests_served(self) -> int | None:
        """Return Ganesha's own count of requests; None without `own_counters`."""
        counted = self.operations_served()
        return None if counted is None else ganesha_counters.requests(counted)

    def operations_served(self) -> dict[str, int] | None:
        """Return counts of NFSv3 procedures or NFSv4 operations since the start; None without `own_counters`."""
        if not self.settings.own_counters or self.process is None or not (pids := self.process.pids()):
            return None
        return ganesha_counters.operations(pids[0], self._protocols)


def _block(name: str, inner: str = "", **values: object) -> str:
    def text(value: object) -> str:
        return str(value).lower() if isinstance(value, bool) else str(value)

    lines = [f"    {key} = {text(value)};" for key, value in values.items()]
    return "\n".join([f"{name} {{", *lines, *([f"    {inner}"] if inner else []), "}"])
