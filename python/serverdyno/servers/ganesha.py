"""NFS-Ganesha with its VFS back end, from its own complete configuration: nothing of /etc/ganesha is read.

It runs in a network namespace with a /run of its own. For NFSv3 an rpcbind that nobody else sees is next to it: Ganesha
4.3 refuses NFSv3 where it can't register with one. What lies below is in `volume_server.py`, as for Samba.
"""

from __future__ import annotations

import pwd
import re
from pathlib import Path
from typing import ClassVar, Self

from pydantic import Field, model_validator

from serverdyno.errors import ServerError
from serverdyno.protocols.nfs import NFS, NfsVersion, every_export_answers
from serverdyno.servers.base import Access, Settings
from serverdyno.servers.disk_settings import DiskSettings
from serverdyno.servers.host_changes import HostChanges
from serverdyno.servers.local import find_program, version_line
from serverdyno.servers.proof import LOOPBACK
from serverdyno.servers.volume_server import VolumeServer

CONFIGURATION = "ganesha.conf"
SCRIPT = "run.sh"
READY_VOLUMES = "volumes-are-there"
RUN = Path("/run")
NFS_PORT = 2049
MOUNT_PORT = 20048


class GaneshaSettings(DiskSettings):
    """What can be varied."""

    protocol: ClassVar[str | None] = NFS.name

    nfs_version: NfsVersion = Field(
        default="3",
        description="The version of NFS that is served, and that clients speak: NFS_Protocols, and vers= of a mount. "
        "Only this one is served.",
    )
    threads: int = Field(
        default=200,
        ge=2,
        le=10_000,
        description="RPC_Ioq_ThrdMax: threads that execute requests. Ganesha's default.",
    )
    max_transfer_bytes: int = Field(
        default=1048576,
        ge=4096,
        le=67108864,
        description="MaxRead, MaxWrite, PrefRead and PrefWrite: bytes of one READ or WRITE. Ganesha's default is "
        "67108864; no client of ours asks for more than 1048576.",
    )
    commit_always: bool = Field(
        default=False,
        description="NFS_Commit: call fsync before every WRITE is answered, whatever the client asked for. "
        "Ganesha's default is off. Ganesha has no setting that ignores COMMIT.",
    )

    @model_validator(mode="after")
    def makes_sense_together(self) -> Self:
        """All that contradicts itself, at once."""
        wrong = {
            **self.wrong_disk(),
            'network "loopback" is not possible: Ganesha needs an rpcbind of its own, and the usual port': self.network
            == "loopback",
        }
        if problems := [problem for problem, found in wrong.items() if found]:
            raise ValueError("; ".join(problems))
        return self


class Ganesha(VolumeServer[GaneshaSettings]):
    """The NFS-Ganesha driver."""

    name: ClassVar[str] = "ganesha"
    program_name: ClassVar[str] = "ganesha.nfsd"
    summary: ClassVar[str] = "NFS-Ganesha: NFSv3 and NFSv4.1 file server in user space"
    debian_package: ClassVar[str | None] = "nfs-ganesha-vfs"
    settings_type: ClassVar[type[Settings]] = GaneshaSettings
    crash_words: ClassVar[re.Pattern[str] | None] = re.compile("Segmentation fault|Aborting")

    @staticmethod
    def version_of(program: Path) -> str:
        """`NFS-Ganesha 4.3`."""
        release = re.search(r"V?(\d+(\.\d+)+)", version_line(program, "-v"))
        return f"NFS-Ganesha {release[1] if release else 'unknown'}"

    @property
    def exports(self) -> tuple[str, ...]:
        """What clients mount: `/volume1` ..."""
        return tuple(f"/{name}" for name in self.volumes.names)

    @property
    def url(self) -> str:
        """After `prepare`. Its ports are the usual ones, in a network of its own."""
        here = f"nfs://{LOOPBACK}:{self.port}/"
        version = self.settings.nfs_version
        return f"{here}?mountport={MOUNT_PORT}" if version == "3" else f"{here}?vers={version}"

    def access(self) -> Access:
        """The exports, and how to get to them. After `start`."""
        namespace = self.process.network_namespace if self.process else None
        return Access(self.url, None, None, self.exports, namespace)

    def choose_port(self) -> int:
        """NFS's own, since nobody else can have it."""
        return NFS_PORT

    def command(self) -> list[str]:
        """A script: of NFSv3 rpcbind, which goes to the background once it answers; then Ganesha in its place."""
        return ["/bin/sh", str(self.directory / SCRIPT)]

    def process_count(self) -> int:
        """Ganesha, and the rpcbind of NFSv3."""
        return 2 if self._has_rpcbind else 1

    @property
    def _has_rpcbind(self) -> bool:
        """NFSv4 has a port of its own and no MOUNT, so that nobody is asked for ports."""
        return self.settings.nfs_version == "3"

    def host_changes(self) -> HostChanges | None:
        """Those of any file server, and a /run of its own."""
        found = super().host_changes()
        return None if found is None else {**found, "own_run": True}

    def check_paths(self) -> None:
        """That rpcbind is there, we may make namespaces, and nothing of ours lies where /run is hidden."""
        super().check_paths()
        if self._has_rpcbind and find_program("rpcbind") is None:
            raise ServerError("rpcbind is not installed", hint="apt-get install rpcbind")
        if not self.own_network:
            raise ServerError(
                "Ganesha needs its own network namespace, which only root can make",
                hint="Run as root.",
            )
        for place in (self.directory, self.volumes.root):
            if place.is_relative_to(RUN):
                raise ServerError(f"{place}: Ganesha gets a {RUN} of its own", hint="Set TMPDIR elsewhere.")
        self.check_place("Ganesha")

    def start(self) -> None:
        """Starts it; it reads its exports once the volumes are there."""
        super().start()
        (self.directory / READY_VOLUMES).touch()

    def answers_as_ours(self) -> bool:
        """Whether each export can be mounted; `LocalServer` has seen that only our processes listen."""
        return every_export_answers(self.access())

    def configuration(self) -> dict[str, str]:
        """`ganesha.conf`, and the script that starts it."""
        return {CONFIGURATION: self._configuration(), SCRIPT: self._script()}

    def _script(self) -> str:
        options = f'-F -f "{self.directory / CONFIGURATION}" -p "{self.directory}/ganesha.pid" -L STDERR'
        return "\n".join(
            [
                "set -eu",
                *([f'"{find_program("rpcbind")}"'] if self._has_rpcbind else []),
                f'while [ ! -e "{self.directory / READY_VOLUMES}" ]; do sleep 0.02; done',
                f'exec "{self.program}" {options}',
                "",
            ]
        )

    @property
    def _protocols(self) -> int:
        """The version without the minor one, of which Ganesha serves all."""
        return int(self.settings.nfs_version.partition(".")[0])

    def _configuration(self) -> str:
        account = pwd.getpwnam(self.user)
        size = self.settings.max_transfer_bytes
        blocks = [
            _block(
                "NFS_CORE_PARAM",
                NFS_Protocols=self._protocols,
                NFS_Port=self.port,
                MNT_Port=MOUNT_PORT,
                Enable_NLM=False,
                Enable_RQUOTA=False,
                Enable_UDP=False,
                mount_path_pseudo=True,
                RPC_Ioq_ThrdMax=self.settings.threads,
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
                    Transports="TCP",
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
        """What COMMIT does, where the files lie, and what surrounds it."""
        flush = (
            "Every WRITE is answered after fsync of its file (NFS_Commit = true)."
            if self.settings.commit_always
            else "COMMIT, and a WRITE that asks for stable storage, is answered after fsync of its file."
        )
        delay = self.settings.fsync_delay_ms
        return [
            flush,
            self.volumes.description(),
            f"Files are made as the user {self.user}, whoever the client says it is (All_Squash).",
            *(
                [
                    "Network: a namespace of its own, with its own rpcbind, which is in the CPU time and memory.",
                    "Locks (NLM) are not offered.",
                ]
                if self._has_rpcbind
                else ["Network: a namespace of its own.", "Delegations are off, as by Ganesha's default."]
            ),
            *(
                [f"Each fsync and fdatasync takes {delay:g} ms longer, at least: the keeper does that."]
                if delay
                else []
            ),
        ]

    def requests_served(self) -> int | None:
        """It tells its counters over D-Bus alone, which it has none of here."""
        return None


def _block(name: str, inner: str = "", **values: object) -> str:
    """One block of `ganesha.conf`."""

    def text(value: object) -> str:
        return str(value).lower() if isinstance(value, bool) else str(value)

    lines = [f"    {key} = {text(value)};" for key, value in values.items()]
    return "\n".join([f"{name} {{", *lines, *([f"    {inner}"] if inner else []), "}"])
