"""Whether what a server acknowledges is on the disk: the calls by which its processes ask for that, and their price.

`FsyncCounter` counts system calls, and syncs by io_uring, through tracefs instances of its own, those for the server's
own books included. What it can't count it does not guess: then there is a reason. Not seen are requests to sync that
are no such call: files opened with O_SYNC or O_DSYNC, RWF_SYNC, and servers inside the kernel.

`disk_fsync_s` is what the disk itself takes. A flush that is answered in much less has not waited for the disk;
a disk with a protected cache can be that fast, too, so it is a hint where the calls can't be counted.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import re
import secrets
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from serverdyno.probes.process_start import has_ended, own_identity

# sync_file_range2 is that call's name on some architectures.
CALLS = ("fsync", "fdatasync", "syncfs", "sync", "sync_file_range", "sync_file_range2", "msync")
NEEDED = ("fsync", "fdatasync")
IO_URING = "io_uring_fsync"
"""The name under which syncs by io_uring are counted."""
IO_URING_EVENTS = ("io_uring_submit_req", "io_uring_submit_sqe")  # since Linux 6.3, and before
IORING_OP_FSYNC = 3  # linux/io_uring.h
INSTANCE = re.compile(r"serverdyno-(\d+)-(\d+)-(\d+)-[0-9a-f]+-\w+")
# Small: what is overwritten is counted all the same.
BUFFER_KIB = 16
SETTLED_LOOKS = 50
BLOCK_BYTES = 4096
STATISTIC = re.compile(r"^(entries|overrun|commit overrun|dropped events|read events): (\d+)$", re.MULTILINE)
COUNTED = ("entries", "overrun", "read events")
TRACED = re.compile(r"^# entries-in-buffer/entries-written: (\d+)/(\d+) ", re.MULTILINE)
EVENT = re.compile(r"^ .*?\[(\d+)\] \S+ +(\d+\.\d+): ", re.MULTILINE)
LOST = ("commit overrun", "dropped events")
FSOPEN_CLOEXEC, FSMOUNT_CLOEXEC, FSCONFIG_CMD_CREATE = 1, 1, 6  # linux/mount.h
LIBRARIES_FOR_ALL = Path("/etc/ld.so.preload")


class Unavailable(Exception):  # noqa: N818 (it is an answer)
    """It can't be counted here, and why."""


class FsyncCounter:
    """Calls that ask for the disk, made by some processes, their threads and all that they start from now on.

    As a context manager: `counts` in between, `reason` says why where that is None. What an earlier counter of a
    process that was killed has left in the kernel is removed first.
    """

    def __init__(self, pids: Iterable[int]) -> None:
        """`pids`: every process of the server now."""
        self._pids = tuple(pids)
        self._tracefs: Path | None = None
        self._mount: int | None = None
        self._instances: dict[str, Path] = {}
        self._before: dict[str, int] = {}
        self._reason: str | None = None

    @property
    def reason(self) -> str | None:
        """Why there are no counts; None: there are."""
        return self._reason

    def __enter__(self) -> Self:
        try:
            self._open()
        except Unavailable as unavailable:
            self._give_up(str(unavailable))
        except OSError as error:
            self._give_up(f"the kernel's tracing can't be used: {error.strerror or error}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def counts(self, until_s: float = math.inf) -> dict[str, int] | None:
        """Return the calls by name since the start, those with 0 included; None: not known, see `reason`.

        A call is counted as it is entered, whatever comes of it. `until_s`: leave out calls after this moment of the
        monotonic clock. They count all the same where the kernel has overwritten some of them.
        """
        if self._reason is not None or not self._instances:
            return None
        try:
            now = {call: _count(instance, until_s) for call, instance in self._instances.items()}
            counts = {call: count - self._before[call] for call, count in now.items()}
            if fallen := [call for call, count in counts.items() if count < 0]:
                raise Unavailable(f"those of {' and '.join(fallen)} fell")
        except (OSError, Unavailable) as error:
            self._give_up(f"the kernel's counts are not whole: {error}")
            return None
        return counts

    def _give_up(self, reason: str) -> None:
        self._reason = reason
        self._close()

    def _open(self) -> None:
        if not self._pids:
            raise Unavailable("there is no process to follow")
        self._mount = _mount_tracefs()
        self._tracefs = Path(f"/proc/self/fd/{self._mount}")
        remove_stale(self._tracefs / "instances")
        traced = _events(self._tracefs / "events")
        if missing := [call for call in NEEDED if call not in traced]:
            raise Unavailable(f"this kernel does not trace {' and '.join(missing)}")
        prefix = "-".join(map(str, ("serverdyno", *own_identity(), secrets.token_hex(4))))
        for call, event in traced.items():
            self._instances[call] = self._tracefs / "instances" / f"{prefix}-{call}"
            self._instances[call].mkdir()
            self._arm(call, event)
        self._check_that_calls_are_seen()
        self._follow()
        self._before = {call: _count(instance) for call, instance in self._instances.items()}

    def _arm(self, call: str, event: str) -> None:
        """One kind of call, of no process yet."""
        instance = self._instances[call]
        if call == IO_URING:
            (instance / event / "filter").write_text(f"opcode == {IORING_OP_FSYNC}")
        (instance / "buffer_size_kb").write_text(str(BUFFER_KIB))
        (instance / "trace_clock").write_text("mono")
        (instance / "options" / "event-fork").write_text("1")
        (instance / "set_event_pid").write_text(str(os.getpid()))
        (instance / event / "enable").write_text("1")

    def _check_that_calls_are_seen(self) -> None:
        """In a PID namespace the kernel knows processes by other numbers than we do, and would count none: so one
        call of our own has to be seen.
        """
        instance = self._instances["fsync"]
        (instance / "set_event_pid").write_text(str(threading.get_native_id()))
        before = _count(instance)
        with tempfile.TemporaryFile() as file:
            os.fsync(file.fileno())
        if _count(instance) != before + 1:
            if preloaded(os.getpid()):
                raise Unavailable("this tool's own fsync does not reach the kernel (LD_PRELOAD)")
            raise Unavailable(
                "the kernel knows processes by other numbers than are seen here (PID namespace)"
            )

    def _follow(self) -> None:
        """All threads of the processes, in place of ours. Again until none came meanwhile: one that starts while the
        list is written may be the child of a thread that was not followed yet.
        """
        followed: set[int] = set()
        for _ in range(SETTLED_LOOKS):
            threads = set(_threads(self._pids))
            if not threads:
                raise Unavailable("the processes to follow have ended")
            if threads <= followed:
                return
            for instance in self._instances.values():
                with (instance / "set_event_pid").open("w" if not followed else "a") as file:
                    file.write(" ".join(map(str, sorted(threads - followed))))
            followed |= threads
        raise Unavailable("the processes start others faster than they can be followed")

    def _close(self) -> None:
        for instance in self._instances.values():
            with contextlib.suppress(OSError):
                _remove(instance)
        self._instances = {}
        if self._mount is not None:
            os.close(self._mount)
            self._mount = None


def _events(events: Path) -> dict[str, str]:
    """The event of each call that this kernel traces, by its path in an instance."""
    paths = {call: f"events/syscalls/sys_enter_{call}" for call in CALLS}
    by_io_uring = (f"events/io_uring/{event}" for event in IO_URING_EVENTS)
    if path := next((path for path in by_io_uring if (events.parent / path).is_dir()), None):
        paths[IO_URING] = path
    return {call: path for call, path in paths.items() if (events.parent / path).is_dir()}


def preloaded(pid: int) -> list[str]:
    """Libraries that are loaded before all others into a process (ld.so(8)), which may answer its syncs themselves.

    None where its environment can't be read.
    """
    found: list[str] = []
    with contextlib.suppress(OSError):
        for variable in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            if variable.startswith(b"LD_PRELOAD="):
                found += re.split(r"[ :]+", os.fsdecode(variable.partition(b"=")[2]))
    with contextlib.suppress(OSError):
        found += LIBRARIES_FOR_ALL.read_text(errors="replace").split()
    return [library for library in dict.fromkeys(found) if library]


def _mount_tracefs() -> int:
    """A tracefs that is mounted nowhere, as a file descriptor: it goes with us, and changes nothing that is seen.

    Raises Unavailable.
    """
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "fsopen"):
        raise Unavailable("the C library knows no fsopen(2)")
    context = _checked(library.fsopen(b"tracefs", FSOPEN_CLOEXEC))
    try:
        _checked(library.fsconfig(context, FSCONFIG_CMD_CREATE, None, None, 0))
        return _checked(library.fsmount(context, FSMOUNT_CLOEXEC, 0))
    finally:
        os.close(context)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise Unavailable(f"tracefs can't be mounted: {os.strerror(number)}")
    return result


def remove_abandoned() -> None:
    """Removes what counters of killed processes have left in the kernel, where this user may."""
    with contextlib.suppress(OSError, Unavailable):
        mount = _mount_tracefs()
        try:
            remove_stale(Path(f"/proc/self/fd/{mount}/instances"))
        finally:
            os.close(mount)


def remove_stale(instances: Path) -> None:
    """Removes instances of counters whose process has gone without removing them."""
    for instance in instances.iterdir():
        match = INSTANCE.fullmatch(instance.name)
        if match and has_ended(*map(int, match.groups())):
            with contextlib.suppress(OSError):
                _remove(instance)


def _remove(instance: Path) -> None:
    """An instance goes like an empty directory."""
    instance.rmdir()


def _count(instance: Path, until_s: float = math.inf) -> int:
    """Return the events written to the instance until then. Raises Unavailable where some were lost."""
    total = 0
    for statistics in (instance / "per_cpu").glob("cpu*/stats"):
        found = {name: int(value) for name, value in STATISTIC.findall(statistics.read_text())}
        if any(found.get(name, 0) for name in LOST):
            raise Unavailable("the kernel lost events")
        # In an instance that has read none, "entries" are those still there and "overrun" those overwritten.
        total += sum(found.get(name, 0) for name in COUNTED)
    # A kernel before 5.9 counts nothing while it is read.
    if until_s == math.inf or not total or not (instance / "options" / "pause-on-trace").exists():
        return total
    return _counted_until(until_s, (instance / "trace").read_text(), total)


def _counted_until(until_s: float, trace: str, total: int) -> int:
    """Return how many events were written until then, or `total` where that can't be told.

    `trace`: a head with the number of events in the buffers and of all that were written, then those in the buffers in
    order of time, then those that came while it was read.
    """
    if not (head := TRACED.search(trace)):
        return total
    held, written = map(int, head.groups())
    events = [(cpu, float(at_s)) for cpu, at_s in EVENT.findall(trace)[:held]]
    first_s = dict(reversed(events))
    if len(events) < held or (held < written and any(at_s > until_s for at_s in first_s.values())):
        return total  # some of those that came since then are overwritten
    return written - sum(at_s > until_s for _, at_s in events)


def _threads(pids: Iterable[int]) -> Iterator[int]:
    """Threads of processes and of all their descendants."""
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            for each in (process, *process.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    yield from (thread.id for thread in each.threads())


def disk_fsync_s(directory: Path, count: int = 100) -> list[float]:
    """What `count` fsync(2) take, seconds each, in order: a file of its own grows by 4 KiB before each.

    So each one writes data and the file's new size, as the flush of a document that is saved does. The write is not
    in it. The file is removed. Raises OSError.
    """
    block = os.urandom(BLOCK_BYTES)
    taken_s = []
    with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
        for _ in range(count):
            file.write(block)
            begun_s = time.perf_counter()
            os.fsync(file.fileno())
            taken_s.append(time.perf_counter() - begun_s)
    return taken_s
