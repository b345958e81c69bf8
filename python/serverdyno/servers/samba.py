"""Samba's smbd with its own complete configuration: it reads no file in /etc/samba and no state of the system.

It has its own user database with one user and a generated password; guests are refused. If possible, it runs in its
own network namespace: smbd listens with SO_REUSEPORT, so another smbd on the same port would silently accept some of
the connections. The settings are in `samba_settings.py`; `volumes.py` creates the directories of the shares.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import subprocess
import time
from pathlib import Path
from typing import ClassVar

import psutil

from serverdyno.errors import ServerError
from serverdyno.servers.base import Access, Settings
from serverdyno.servers.local import POLL_S, find_program
from serverdyno.servers.proof import offer
from serverdyno.servers.samba_defaults import departures
from serverdyno.servers.samba_settings import SambaSettings
from serverdyno.servers.volume_server import VolumeServer

CONFIGURATION = "smb.conf"
SMB_PORT = 445
PROOF_NAME = "serverdyno-proof.txt"
# Directories in the server's private directory. Only this user can enter `private`.
DIRECTORIES = ("private", "lock", "state", "cache", "pid", "ncalrpc", "log")
SOCKET_PATH_BYTES = 107  # unix(7): maximum length of sun_path
LONGEST_SOCKET = "private/msg.sock/4194304"  # path with the highest process ID of Linux
PROTOCOLS = {"2.0.2": "SMB2_02", "2.1": "SMB2_10", "3.0": "SMB3_00", "3.0.2": "SMB3_02", "3.1.1": "SMB3_11"}
SIGNING = {"auto": "auto", "required": "mandatory"}
ENCRYPTION = {"off": "off", "auto": "default", "required": "required"}
BUILD_OPTIONS = ("WITH_PROFILE", "HAVE_KERNEL_OPLOCKS_LINUX", "HAVE_LIBURING", "WITH_PTHREADPOOL")
CONNECTION_PROCESS = "smbd"
NO_BARRIER = ("nobarrier", "barrier=0")  # ext4(5)
COUNTER = re.compile(r"^smb2_(\w+)_count:\s+(\d+)$", re.MULTILINE)
SYNC_COUNTER = re.compile(r"^syscall_\w*fsync_count:\s+(\d+)$", re.MULTILINE)
PROGRAM_TIMEOUT_S = 60.0
# smbd's processes write their counters one second after the first request since the last write
# (smbprofile_dump_schedule).
COUNTERS_DELAY_S = 1.5
COUNTERS_LOOKS = 20


class Samba(VolumeServer[SambaSettings]):
    name: ClassVar[str] = "samba"
    program_name: ClassVar[str] = "smbd"
    summary: ClassVar[str] = "Samba: SMB 2 and 3"
    debian_package: ClassVar[str | None] = "samba"
    settings_type: ClassVar[type[Settings]] = SambaSettings
    crash_words: ClassVar[re.Pattern[str] | None] = re.compile("INTERNAL ERROR:")

    @staticmethod
    def version_of(program: Path) -> str:
        return _version(program)

    @property
    def url(self) -> str:
        """Return the URL above all shares. It is valid after `prepare` and may change in `ready`."""
        return f"smb://{self.host}:{self.port}/"

    def access(self) -> Access:
        """Return the shares, and the user with the password. They are valid after `start`."""
        namespace = self.process.network_namespace if self.process else None
        token = self.consent_token if self.shows_consent else None
        return Access(self.url, self.user, self.secret, self.volumes.names, namespace, consent_token=token)

    def proof(self) -> tuple[str, str]:
        """Return name and content of a file in the root of every share that proves the identity of the server."""
        return PROOF_NAME, hashlib.sha256(self.secret.encode()).hexdigest()

    def command(self) -> list[str]:
        """Return the command that runs smbd in the foreground. Messages of all processes go to the server's output."""
        options = ["--foreground", "--no-process-group", "--debug-stdout"]
        return [str(self.program), f"--configfile={self.directory / CONFIGURATION}", *options]

    def process_count(self) -> int:
        return 1

    def connection_pids(self) -> list[int]:
        """Return the IDs of the processes that serve connections.

        They are children of the first process. Samba's helper processes have other names.
        """
        assert self.process is not None
        pids = self.process.pids()
        found = []
        for pid in pids:
            with contextlib.suppress(psutil.NoSuchProcess):
                process = psutil.Process(pid)
                if process.name() == CONNECTION_PROCESS and process.ppid() in pids:
                    found.append(pid)
        return found

    def choose_port(self) -> int:
        """Return SMB's standard port if no other program can use it; otherwise a free port."""
        return SMB_PORT if self.own_network else super().choose_port()

    def check_paths(self) -> None:
        """Check that the paths of sockets are short enough, and that the user can enter the volumes."""
        super().check_paths()
        if len(os.fsencode(self.directory / LONGEST_SOCKET)) > SOCKET_PATH_BYTES:
            raise ServerError(
                f"{self.directory}: paths of smbd's sockets below it would be longer than {SOCKET_PATH_BYTES} bytes",
                hint="Set TMPDIR to a directory with a shorter path.",
            )
        if find_program("pdbedit") is None:
            raise ServerError("pdbedit is not installed", hint=f"apt-get install {self.debian_package}")
        self.check_place("smbd")

    def furnish(self) -> None:
        """Create smbd's directories and its user, and the volumes as far as possible before smbd runs."""
        for name in DIRECTORIES:
            (self.directory / name).mkdir(exist_ok=True)
        (self.directory / "private").chmod(0o700)
        super().furnish()
        self._add_user()

    def _add_user(self) -> None:
        pdbedit = str(find_program("pdbedit"))
        command = [pdbedit, "-s", str(self.directory / CONFIGURATION), "-t", "-a", "-u", self.user]
        done = subprocess.run(
            command,
            input=f"{self.secret}\n{self.secret}\n",
            capture_output=True,
            text=True,
            timeout=PROGRAM_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            raise ServerError(f"pdbedit could not add the user {self.user}: {done.stderr.strip()}")

    def start(self) -> None:
        """Start smbd and create the volumes. Write a file to the root of each that proves that the server is ours."""
        super().start()
        try:
            for directory in self.data_directories():
                (directory / PROOF_NAME).write_text(self.proof()[1])
        except OSError as error:
            raise ServerError(f"can't create the volumes: {error}") from error

    def answers_as_ours(self) -> bool:
        """Return whether the server answers a NEGOTIATE request. Raises AnswerError if it does not.

        `LocalServer` has checked that only smbd's own processes listen.
        """
        assert self.process is not None
        offer(self.port, self.process.network_namespace, self.host)
        return True

    def configuration(self) -> dict[str, str]:
        parameters = [*self._server(), *self._protocol(), *self._files_of_shares()]
        lines = ["[global]", *(f"    {name} = {value}" for name, value in parameters)]
        for name in self.volumes.names:
            lines += [f"[{name}]", f"    path = {self.volumes.top / name}"]
        return {CONFIGURATION: "\n".join(lines) + "\n"}

    def _server(self) -> list[tuple[str, object]]:
        own = self.directory
        return [
            ("server role", "standalone server"),
            ("workgroup", "DYNO"),
            ("netbios name", "SERVERDYNO"),
            ("disable netbios", "yes"),
            ("smb ports", self.port),
            ("interfaces", f"{self.host}/{32 if self.is_elsewhere else 8}"),
            ("bind interfaces only", "yes"),
            ("private dir", own / "private"),
            ("lock directory", own / "lock"),
            ("state directory", own / "state"),
            ("cache directory", own / "cache"),
            ("pid directory", own / "pid"),
            ("ncalrpc dir", own / "ncalrpc"),
            ("winbindd socket directory", own / "private" / "winbindd"),
            ("usershare path", ""),
            ("passdb backend", f"tdbsam:{own / 'private' / 'passdb.tdb'}"),
            ("map to guest", "never"),
            ("log file", own / "log" / "smbd.log"),
            ("log level", self.settings.log_level),
            ("load printers", "no"),
            ("printing", "bsd"),
            ("printcap name", "/dev/null"),
            ("disable spoolss", "yes"),
            ("idmap config * : backend", "tdb"),
            ("idmap config * : range", "1000000-1999999"),
            ("smbd profiling level", "count" if self.settings.operation_counters else "off"),
        ]

    def _protocol(self) -> list[tuple[str, object]]:
        settings = self.settings
        return [
            ("server min protocol", PROTOCOLS[settings.min_dialect]),
            ("server max protocol", PROTOCOLS[settings.max_dialect]),
            ("server signing", SIGNING[settings.signing]),
            ("server smb encrypt", ENCRYPTION[settings.encryption]),
            # Samba handles all connections with the same client GUID in one process, so clients that share a
            # GUID would measure only that process.
            ("server multi channel support", _yes_no(settings.multi_channel)),
            ("smb2 leases", _yes_no(self.smb2_leases)),
            ("socket options", settings.socket_options),
        ]

    @property
    def level2_oplocks(self) -> bool:
        return self.settings.grants_level2

    @property
    def smb2_leases(self) -> bool:
        return self.settings.grants_leases

    def _files_of_shares(self) -> list[tuple[str, object]]:
        settings = self.settings
        # Samba warns that `allocation roundup size` is deprecated, so set it only if it differs from the
        # default.
        roundup = settings.allocation_roundup_bytes
        return [
            ("read only", "no"),
            ("guest ok", "no"),
            ("strict sync", _yes_no(settings.strict_sync)),
            ("sync always", _yes_no(settings.sync_always)),
            ("oplocks", _yes_no(settings.oplocks)),
            ("level2 oplocks", _yes_no(self.level2_oplocks)),
            ("kernel oplocks", _yes_no(settings.kernel_oplocks)),
            ("case sensitive", _yes_no(settings.case_sensitive)),
            ("aio read size", settings.aio_read_size),
            ("aio write size", settings.aio_write_size),
            ("durable handles", _yes_no(settings.durable_handles)),
            *([("allocation roundup size", roundup)] if roundup else []),
        ]

    def notes(self) -> list[str]:
        """Return notes on the effect of FLUSH, the differences from Samba's defaults, and the volumes."""
        settings = self.settings
        options = build_options(self.program)
        built = ", ".join(f"{name}: {'yes' if name in options else 'no'}" for name in BUILD_OPTIONS)
        notes = [
            self._flush(),
            departures(self.directory / CONFIGURATION, settings.log_level),
            self.volumes.description(),
            f"Files are created as the user {self.user}. One process per connection.",
            f"Build (smbd -b): {built}.",
            self.network_note(),
        ]
        if settings.fsync_delay_ms:
            notes.append(
                f"Each fsync and fdatasync of smbd takes {settings.fsync_delay_ms:g} ms longer. The keeper "
                "adds this delay by seccomp notification; the disk does not cause it."
            )
        if limits := settings.write_back():
            named = ", ".join(f"vm.{name} = {value}" for name, value in limits.items())
            notes.append(
                f"While this server runs, these kernel settings apply to the whole machine: {named}."
            )
        if settings.operation_counters:
            notes.append(
                "Requests served: SMB2 requests by smbd's own counters; each part of a compound counts once."
            )
        return notes

    def _flush(self) -> str:
        """Return the effect of a FLUSH (smbd/smb2_flush.c, `sync_file` in smbd/fileio.c; mount(8) for `mount_options`).

        If the volumes have no file system of their own, the medium is unknown before smbd runs.
        """
        options = self.settings.mount_options.split(",")
        if not self.settings.strict_sync:
            said = "SMB2 FLUSH is answered with success without fsync, and write-through is ignored (strict sync = no)"
            return (
                f"{said}; the file system itself writes synchronously (mount option sync)."
                if "sync" in options
                else f"{said}: a power cut can lose acknowledged data."
            )
        cut = next((option for option in options if option in NO_BARRIER), None)
        beside = f"; fsync goes no further than the device's cache (mount option {cut})." if cut else "."
        if self.settings.sync_always:
            return (
                "Every write is answered after fsync of its file (sync always = yes), and so is SMB2 FLUSH"
                f"{beside}"
            )
        return (
            "SMB2 FLUSH, and a write with write-through, is answered after fsync of its file (strict sync = yes)"
            f"{beside}"
        )

    def operations_served(self) -> dict[str, int] | None:
        """Return SMB2 requests since the start by operation (`create`, `flush` ...), from smbd's own counters.

        None if smbd has no counters, or if they can't be read (smbstatus requires root). The counters are read until
        two readings agree, a bounded number of times, so call this after the load.
        """
        before = None
        for _ in range(COUNTERS_LOOKS):
            self._wait_until_written()
            now = {name: int(count) for name, count in COUNTER.findall(self._profile() or "")}
            if not now or now == before:
                return now or None
            before = now
        return None

    def _wait_until_written(self) -> None:
        """Wait until no process serves a connection, because each process writes its counters when it ends.

        The wait is at most `COUNTERS_DELAY_S`. By then, a remaining process has written its counters, too.
        """
        until_s = time.monotonic() + COUNTERS_DELAY_S
        while self.process is not None and self.connection_pids() and time.monotonic() < until_s:
            time.sleep(POLL_S)

    def syncs_served(self) -> int | None:
        """Return smbd's own count of fsync calls. It covers only the files of clients."""
        profile = self._profile()
        return None if profile is None else sum(int(count) for count in SYNC_COUNTER.findall(profile))

    def _profile(self) -> str | None:
        """Return the output of `smbstatus --profile`; None if smbd counts nothing or the counters can't be read."""
        smbstatus = find_program("smbstatus")
        if not self.settings.operation_counters or self.process is None or smbstatus is None:
            return None
        if "WITH_PROFILE" not in build_options(self.program):
            return None
        done = subprocess.run(
            [str(smbstatus), "--profile", "-s", str(self.directory / CONFIGURATION)],
            capture_output=True,
            text=True,
            timeout=PROGRAM_TIMEOUT_S,
            check=False,
        )
        return done.stdout if done.returncode == 0 and COUNTER.search(done.stdout) else None

    def requests_served(self) -> int | None:
        """Return the sum of `operations_served`, including the readiness check's negotiation."""
        operations = self.operations_served()
        return None if operations is None else sum(operations.values())


@functools.cache
def _version(program: Path) -> str:
    done = subprocess.run([str(program), "-V"], capture_output=True, text=True, timeout=30, check=False)
    return done.stdout.strip().replace("Version ", "Samba ", 1) or "unknown"


@functools.cache
def build_options(program: Path) -> frozenset[str]:
    """Return the names of the options that smbd was built with."""
    done = subprocess.run([str(program), "-b"], capture_output=True, text=True, timeout=30, check=False)
    return frozenset(line.strip() for line in done.stdout.splitlines())


def _yes_no(value: bool) -> str:
    return "yes" if value else "no"
