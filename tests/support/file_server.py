"""A private Samba for tests, and independent clients that inspect it: smbclient and smbtorture.

Remains may be processes, mounts, loop devices, limits and directories.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from serverdyno.servers import write_back
from serverdyno.servers.local import find_program
from serverdyno.servers.registry import create
from serverdyno.servers.samba import Samba

PATIENCE_S = 180.0  # many times the longest wait on a quiet machine, so that it ends only hanging waits
ROOT = os.geteuid() == 0
NOBODY = "games"  # on every Debian system; it owns nothing here
needs_root = pytest.mark.skipif(not ROOT, reason="namespaces, mounts and limits of the machine need root")


def skip_unless_installed(*programs: str) -> None:
    for program in programs:
        if find_program(program) is None:
            pytest.skip(f"{program} is not installed here: run tools/install-servers.sh tests")


@contextmanager
def stopped_at_end(settings: Mapping[str, Any]) -> Iterator[Samba]:
    """Yield a Samba that has not been prepared, and stop it at the end."""
    skip_unless_installed("smbd")
    server = create("samba", settings, documents=Path(os.devnull))
    assert isinstance(server, Samba)
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def samba(settings: Mapping[str, Any] | None = None) -> Iterator[Samba]:
    with stopped_at_end(settings or {}) as server:
        server.prepare()
        server.start()
        server.ready()
        yield server


def client(server: Samba, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run an independent client in the server's network."""
    skip_unless_installed(program)
    access = server.access()
    inside = ["nsenter", f"--net={access.network_namespace}"] if access.network_namespace else []
    command = [*inside, program, "-s", str(server.directory / "smb.conf"), "-p", str(server.port)]
    return subprocess.run(
        [*command, "-U", f"{access.user}%{access.password}", *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def smbclient(server: Samba, commands: str, *options: str, share: str = "volume1") -> str:
    """Return the output of smbclient, which must succeed."""
    done = client(server, "smbclient", f"//127.0.0.1/{share}", "-c", commands, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


FLUSHES = 2


def flush_twice(server: Samba) -> None:
    """Let smbtorture send two SMB2 FLUSH without writing, and check that both succeed."""
    done = client(server, "smbtorture", "//127.0.0.1/volume1", "smb2.compound_async.flush_flush")
    assert done.returncode == 0, done.stdout + done.stderr


@dataclass(frozen=True)
class Machine:
    """The state of the machine that a server must restore."""

    place: Path
    mounts: tuple[str, ...]
    loop_devices: tuple[str, ...]
    limits: tuple[str, ...]
    journal: bool


def machine(place: Path | None = None) -> Machine:
    """Return the state that servers below `place` (default: the temporary directory) may have changed.

    Images and mounts of other programs are left out.
    """
    place = place or Path(tempfile.gettempdir())
    ours = f"{place}/serverdyno-samba-"
    loops = Path("/sys/block").glob("loop*/loop/backing_file")
    return Machine(
        place=place,
        mounts=tuple(
            sorted(
                each.mountpoint
                for each in psutil.disk_partitions(all=True)
                if each.mountpoint.startswith(ours)
            )
        ),
        loop_devices=tuple(sorted(text for each in loops if (text := _text(each)).startswith(ours))),
        limits=tuple(_text(path) for path in sorted(write_back.LIMITS.glob("dirty_*"))),
        journal=write_back.JOURNAL.exists(),
    )


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:  # a loop device that was removed meanwhile
        return ""


def wait_until_machine_is(before: Machine) -> None:
    """Wait for the old state: once the last process inside has ended, the kernel unmounts and frees loop devices."""
    deadline = time.monotonic() + PATIENCE_S
    while (now := machine(before.place)) != before:
        assert time.monotonic() < deadline, (now, before)
        time.sleep(0.01)


def family(server: Samba) -> list[psutil.Process]:
    """Return the keeper, smbd's first process, and the others, some of which live only briefly."""
    assert server.process is not None
    found = []
    for pid in (server.process.keeper.pid, *server.pids()):
        with contextlib.suppress(psutil.NoSuchProcess):
            found.append(psutil.Process(pid))
    return found


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Return the processes that still run after a bounded wait; a zombie that waits for its reaper has ended."""
    return [each for each in psutil.wait_procs(processes, timeout=PATIENCE_S)[1] if not _ended(each)]


def _ended(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
