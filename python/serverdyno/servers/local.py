"""The common base of the drivers of servers that dyno starts.

`web.py` adds what web servers share, and `file_server.py` what file servers share. Each driver adds at least the
configuration and the command. Servers that the user runs are in `external.py`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pwd
import re
import resource
import secrets
import shutil
import signal
import stat
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from serverdyno import _native
from serverdyno.errors import ServerEndedError, ServerError, UserError
from serverdyno.probes import abandoned
from serverdyno.probes.package import package_of
from serverdyno.probes.topology import Topology
from serverdyno.servers import waiting
from serverdyno.servers.base import Access, Description, Installed, LocalSettings, Settings
from serverdyno.servers.host_changes import HostChanges
from serverdyno.servers.process import LOG_NAME, ServerProcess
from serverdyno.servers.proof import LOOPBACK, free_port

SettingsT = TypeVar("SettingsT", bound=LocalSettings)

WORKER_USER = "www-data"  # on every Debian system, without special rights; used if this process is root
ERROR_LOG = "error.log"
START_TIMEOUT_S = 60.0
PORT_ATTEMPTS = 5
POLL_S = 0.02
# Characters that have no special meaning between double quotes in any of the configuration languages.
PLAIN_PATH = re.compile(r"/[A-Za-z0-9/_.,:+@=~-]*")


def find_program(name: str) -> Path | None:
    """Return a server program, even if it is outside an ordinary user's PATH."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin")
    return Path(found) if found else None


@cache
def version_line(program: Path, option: str) -> str:
    """Return the first line that `program option` prints on either stream. The result is cached."""
    done = subprocess.run([program, option], capture_output=True, text=True, timeout=30, check=False)
    lines = (done.stdout + done.stderr).strip().splitlines()
    return lines[0] if lines else "unknown"


def worker_user() -> str | None:
    """Return the user of the workers; None if this process is not root, because workers then run as its user.

    Raises ServerError.
    """
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam(WORKER_USER).pw_name
    except KeyError:
        raise ServerError(
            f"this machine has no user {WORKER_USER} for the workers of a server started by root",
            hint="Run as an ordinary user, or: adduser --system --group www-data",
        ) from None


def make_private(directory: Path) -> None:
    """Create `directory`, which only this user can change. Raises ServerError if it belongs to another user."""
    with contextlib.suppress(FileExistsError):
        directory.mkdir()
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise ServerError(
            f"{directory} belongs to another user", hint="Set TMPDIR to a directory of your own."
        )
    directory.chmod(0o755)


def check_path(path: Path) -> None:
    """Raise ServerError if a path can't be written into a configuration file."""
    if not PLAIN_PATH.fullmatch(str(path)):
        raise ServerError(
            f"{path}: some servers' configuration files can't contain a path with these characters",
            hint="Set TMPDIR to a directory with a plain absolute path.",
        )


class LocalServer(ABC, Generic[SettingsT]):
    """A server in a private directory on a private port of 127.0.0.1, or of the address in `host`.

    See `base.ServerDriver` for the contract.
    """

    name: ClassVar[str]
    program_name: ClassVar[str]  # name of the executable; a driver without one overrides `installed`
    summary: ClassVar[str]
    debian_package: ClassVar[str | None]
    settings_type: ClassVar[type[Settings]]
    crash_words: ClassVar[re.Pattern[str] | None] = None  # matches a crash in the log

    def __init__(
        self,
        settings: SettingsT,
        directory: Path,
        documents: Path,
        cpus: Sequence[int] = (),
        url: str | None = None,
    ) -> None:
        """Create the driver. `prepare` creates `directory`, and `stop` removes it; its name starts with `serverdyno-`.

        `documents` is the document root of a web server, which is only read. If `cpus` is empty, the server uses all
        CPUs that this process may use. Raises UserError for a `url`: only servers that the user runs have one.
        """
        if url is not None:
            raise UserError(f"url: dyno starts the server {self.name!r} itself, so it can't have a url")
        self.settings = settings
        self.directory = directory
        self.documents = documents
        self.cpus = tuple(cpus)
        self.host = LOOPBACK
        self.port = 0
        self.secret = ""
        self.given_token: str | None = None
        self._always_consents = False
        self.process: ServerProcess | None = None
        self._cut_off_ns = 0
        self._files: dict[str, str] = {}
        self._prepared = False

    @classmethod
    def installed(cls) -> Installed | None:
        program = find_program(cls.program_name)
        return None if program is None else Installed(cls.version_of(program), program)

    @staticmethod
    def version_of(program: Path) -> str:
        return version_line(program, "--version")

    @abstractmethod
    def configuration(self) -> dict[str, str]:
        """Return the text of each configuration file by its name in the private directory."""

    @abstractmethod
    def command(self) -> list[str]:
        """Return the command that runs the server in the foreground."""

    @abstractmethod
    def process_count(self) -> int:
        """Return the number of processes once every worker has started."""

    def notes(self) -> list[str]:
        """Return notes that readers of a figure need and the configuration does not contain."""
        return []

    def environment(self) -> dict[str, str]:
        return {}

    @abstractmethod
    def answers_as_ours(self) -> bool:
        """Return whether this server answers on the port. Raises AnswerError."""

    @abstractmethod
    def access(self) -> Access:
        """Return the data that clients need to reach the server. They are valid after `ready`."""

    def check_paths(self) -> None:
        """Check paths before anything is written. Raises ServerError."""
        check_path(self.directory)

    def listen_on(self, address: str) -> None:
        if not self.settings_type.listens_elsewhere:
            raise UserError(
                f"the server {self.name} listens only on loopback, so other machines can't reach it"
            )
        self.host = address

    def consent_to(self, token: str) -> None:
        """Consent to load from the holder of `token`, even on loopback. Call it before `prepare`."""
        self.given_token, self._always_consents = token, True

    @property
    def shows_consent(self) -> bool:
        """Return whether the server shows a consent, as it does outside loopback and on every node of a fleet."""
        return self.is_elsewhere or self._always_consents

    @property
    def is_elsewhere(self) -> bool:
        """Return whether the server listens on an address other than loopback."""
        return self.host != LOOPBACK

    @property
    def consent_token(self) -> str:
        """Return the consent token: the given one, or one for this start that does not reveal the server's secret."""
        return self.given_token or hashlib.sha256(f"consent {self.secret}".encode()).hexdigest()[:32]

    def consent_document(self) -> str:
        """Return the document that consents to load, with a line for each port of the server."""
        lines = (_native.consent_document(f"{self.host}:{port}", self.consent_token) for port in self.ports())
        return "\n".join(lines)

    def choose_port(self) -> int:
        """Return a free port of the server's address. Raises ServerError if this machine does not have the address."""
        try:
            return free_port(self.host)
        except OSError as error:
            raise ServerError(
                f"{self.name} can't listen on {self.host}: {error.strerror}",
                hint="Use an address of the machine on which the server runs.",
            ) from error

    def ports(self) -> list[int]:
        return [self.port]

    def furnish(self) -> None:
        """Add the files that the server needs besides the configuration. Raises ServerError."""

    def host_changes(self) -> HostChanges | None:
        """Return the host changes that the keeper applies while the server runs; None if there are none."""
        return None

    @property
    def is_here(self) -> bool:
        return True

    @property
    def processors(self) -> int:
        return len(self.cpus) or len(os.sched_getaffinity(0))

    @property
    def in_use(self) -> Installed | None:
        """Return the program that the settings name, or the installed one."""
        if self.settings.program is None:
            return self.installed()
        program = Path(self.settings.program)
        return Installed(self.version_of(program), program)

    @property
    def program(self) -> Path:
        """Return the program's path. Raises ServerError."""
        if self.settings.program is not None:
            return Path(self.settings.program)
        found = self.installed()
        if found is None or found.program is None:
            raise ServerError(f"{self.name} is not installed", hint=f"apt-get install {self.debian_package}")
        return found.program

    def prepare(self) -> None:
        """Choose a free port and write the private directory. Does nothing while the server runs."""
        if self.process is not None:
            return
        self.check_paths()
        self.port = self.choose_port()
        self.secret = secrets.token_hex(16)
        self._files = self.configuration()
        self._prepared = True
        make_private(self.directory)
        abandoned.mark(self.directory)
        for name, text in self._files.items():
            # Anyone who can write to this file controls the server, so its mode must not depend on the umask.
            (self.directory / name).touch(mode=0o644)
            (self.directory / name).write_text(text)
        self.furnish()

    def start(self) -> None:
        """Start the server under a keeper; return once its process exists. Does nothing while it runs."""
        if self.process is None:
            self.process = ServerProcess.start(
                self.command(),
                self.directory,
                self.cpus,
                self.environment(),
                remove_directory=True,
                host_changes=self.host_changes(),
                host=self.host,
            )

    def ready(self) -> None:
        """Wait until all workers have started and the identity of the server is proven.

        If another program took the port after it was found free, up to five ports are tried. Raises ServerError with
        the server's own message.
        """
        taken = []
        for _ in range(PORT_ATTEMPTS):
            problem = self._wait_for_proof()
            if problem is None:
                return
            taken.append(problem)
            self.stop()
            self.prepare()
            self.start()
        raise ServerError(
            f"{self.name}: could not confirm that it is the only listener on its port; gave up after "
            f"{PORT_ATTEMPTS} ports.\n" + "\n".join(taken),
            hint="To see which programs listen: ss -ltnp. To see other users' processes, run as root with "
            "CAP_SYS_PTRACE.",
        )

    def _wait_for_proof(self) -> str | None:
        """Return None once the server is proven; otherwise, the program that has the port. Raises ServerError."""
        process = self._require_process()
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            found = {port: process.listeners(port) for port in self.ports()}
            for port, listeners in found.items():
                if strangers := process.strangers(listeners):
                    return f"port {port}: {', '.join(map(str, strangers))}"
            if not process.running():
                return self._port_taken_at_start(process)
            if len(process.pids()) >= self.process_count() and all(found.values()) and self.answers():
                return None
            time.sleep(POLL_S)
        raise ServerError(
            f"{self.name} did not answer correctly on port {self.port} within {START_TIMEOUT_S:.0f} s.\n"
            + process.failure(self.directory / ERROR_LOG)
        )

    def _port_taken_at_start(self, process: ServerProcess) -> str:
        """Return a problem if the server ended because its port was in use. Otherwise, raise ServerError."""
        text = process.failure(self.directory / ERROR_LOG)
        if "address already in use" in text.lower():
            return f"port {self.port}: another program bound it before {self.name} could"
        raise ServerError(
            f"{self.name} exited before its first answer.\n{text}",
            hint="The message above is from the server. Check its settings in the plan; `dyno servers` "
            "explains them.",
        )

    def answers(self) -> bool:
        """Return whether the server answers with the proof; False if it can't be reached or has ended."""
        try:
            with waiting.ended_by(self.check):
                return self.answers_as_ours()
        except (_native.AnswerError, ServerEndedError):
            return False

    def ask(self, target: object) -> None: ...

    def check(self) -> None:
        """Raise ServerEndedError with the server's own message if its first process has ended."""
        process = self._require_process()
        if not process.running():
            raise ServerEndedError(
                f"{self.name} exited under load.\n{process.failure(self.directory / ERROR_LOG)}",
                hint="The lines above are from the server's own log. `dyno resume` repeats the run of a plan.",
            )

    def crashes(self) -> list[str]:
        found: list[str] = []
        for path in (self.directory / ERROR_LOG, self.directory / LOG_NAME):
            if self.crash_words is not None and path.exists():
                with path.open(errors="replace") as log:
                    found += (line.strip() for line in log if self.crash_words.search(line))
        return found

    def _require_process(self) -> ServerProcess:
        if self.process is None:
            raise ServerError(f"{self.name} is not running")
        return self.process

    def describe(self) -> Description:
        """Return the disclosure. Valid after `prepare`."""
        found = self.in_use
        return Description(
            server=self.name,
            version=found.version if found else "unknown",
            command=self.command(),
            settings=self.settings.model_dump(),
            files=dict(self._files),
            notes=[*self.notes(), *self.common_notes()],
            package=package_of(found.program) if found and found.program else None,
            effective=self.effective_settings(),
        )

    def effective_settings(self) -> dict[str, object]:
        """Return the effective values of settings that are left out, if the driver has a property of the same name."""
        left_out = [name for name, value in self.settings if value is None and name != "program"]
        return {name: getattr(self, name) for name in left_out if hasattr(self, name)}

    def common_notes(self) -> list[str]:
        open_files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        return [
            *self._program_note(),
            f"CPUs: {', '.join(map(str, self.cpus)) or 'all'}.{self._shared_cores()}",
            f"Each process may open {open_files} files.",
            "CPU time: user and system time of all its processes, ended ones included, in ticks of 10 ms.",
            "Memory: proportional set size if readable, otherwise the sum of resident set sizes.",
        ]

    def _shared_cores(self) -> str:
        found = Topology.read(self.cpus).siblings(self.cpus)
        pairs = (" and ".join(map(str, cpus)) for cpus in found)
        return f" Hyperthreads of one core: {'; '.join(pairs)}." if found else ""

    def _program_note(self) -> list[str]:
        """Return the build of a program that the plan names, because different builds often have equal versions."""
        if self.settings.program is None:
            return []
        with Path(self.settings.program).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return [f"Program: {self.settings.program}, SHA-256 {digest}."]

    def cut_off(self, how: str, away_s: float) -> None:
        """Start an outage in the middle of a level, of a kind in `settings_type.cuts`; return immediately.

        server: all processes are killed, and the server is started again after `away_s`. processes: the processes
        that serve connections are killed.
        """
        process = self._require_process()
        if how == "server":
            process.restart(away_s)
            return
        self._cut_off_ns = time.monotonic_ns()
        for pid in self.connection_pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def was_cut_off_ns(self) -> int | None:
        """Return when the last outage began, in monotonic nanoseconds; None if there was none."""
        return max(self._cut_off_ns, self._require_process().killed_ns) or None

    def connection_pids(self) -> list[int]:
        """Return the IDs of the processes that serve connections; empty if the server has no separate ones."""
        return []

    def stop(self) -> None:
        """Stop the server and remove its private directory. Raises ServerError if a process can't be ended."""
        process, self.process = self.process, None
        try:
            if process is not None:
                process.stop()
        finally:
            if self._prepared:
                shutil.rmtree(self.directory, ignore_errors=True)

    @property
    @abstractmethod
    def url(self) -> str:
        """Return the URL. It is valid after `prepare` and may change in `ready`."""

    @abstractmethod
    def requests_served(self) -> int | None: ...

    def syncs_served(self) -> int | None:
        return None

    def cpu_s(self) -> float | None:
        return self.process.cpu_s() if self.process else None

    def cpu_by_member_s(self) -> dict[str, float | None]:
        return {}

    def rss_bytes(self) -> int | None:
        return self.process.rss_bytes() if self.process else None

    def pids(self) -> list[int]:
        return self.process.pids() if self.process else []

    def data_directories(self) -> list[Path]:
        return []
