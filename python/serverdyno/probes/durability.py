"""Count the calls by which a server's processes request durability, and measure the cost of a sync.

`FsyncCounter` counts system calls, and syncs by io_uring, through its own tracefs instances. The counts include calls
for the server's own bookkeeping. If calls can't be counted, it reports the reason. A file opened for synchronous
writes (O_SYNC, O_DSYNC) counts as one sync, however often it is written. RWF_SYNC and servers inside the kernel are not
seen.

`disk_fsync_s` measures the disk itself. A flush that is answered much faster has not waited for the disk. If the
calls can't be counted, this is only a hint, because a disk with a protected cache can be equally fast.
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
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from serverdyno.probes import processes
from serverdyno.probes.process_start import has_ended, own_identity
from serverdyno.probes.synchronous import probe_file

# Some architectures have sync_file_range2 instead of sync_file_range.
CALLS = ("fsync", "fdatasync", "syncfs", "sync", "sync_file_range", "sync_file_range2", "msync")
NEEDED = ("fsync", "fdatasync")
IO_URING = "io_uring_fsync"
"""Name in the counts for syncs by io_uring."""
OPEN_SYNC = "open_sync"
"""Name in the counts for files opened for synchronous writes."""
IO_URING_EVENTS = ("io_uring_submit_req", "io_uring_submit_sqe")  # names since Linux 6.3, and before 6.3
IORING_OP_FSYNC = 3  # linux/io_uring.h
FILTERS = {
    IO_URING: f"opcode == {IORING_OP_FSYNC}",
    OPEN_SYNC: f"flags & {os.O_DSYNC}",
}  # O_SYNC includes O_DSYNC
INSTANCE = re.compile(r"serverdyno-(\d+)-(\d+)-(\d+)-[0-9a-f]+-\w+")
# The buffer can be small, because overwritten events are counted, too.
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
    """Calls can't be counted on this machine. The message is the reason."""


class FsyncCounter:
    """Counts the durability calls of processes, of their threads, and of everything that they start later.

    It is a context manager. In its block, `counts` returns the counts so far; None if not known, see `reason`. Leftover
    tracefs instances of killed counters are removed first.
    """

    def __init__(self, pids: Iterable[int]) -> None:
        """Create the counter. `pids` are all current processes of the server."""
        self._pids = tuple(pids)
        self._tracefs: Path | None = None
        self._mount: int | None = None
        self._instances: dict[str, Path] = {}
        self._before: dict[str, int] = {}
        self._reason: str | None = None

    @property
    def reason(self) -> str | None:
        """Why the counts are not known; None if they are known."""
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
        """Return the calls since the start by name, including those with 0; None if not known, see `reason`.

        A call is counted when it is entered, whatever its result. Calls after `until_s` of the monotonic clock are
        not counted, unless the kernel has overwritten some of their events.
        """
        if self._reason is not None or not self._instances:
            return None
        try:
            now = {call: _count(instance, until_s) for call, instance in self._instances.items()}
            counts = {call: count - self._before[call] for call, count in now.items()}
            if fallen := [call for call, count in counts.items() if count < 0]:
                raise Unavailable(f"the counts of {' and '.join(fallen)} decreased")
        except (OSError, Unavailable) as error:
            self._give_up(f"the kernel's counts of syncs can't be used: {error}")
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
        """Prepare the instance for one kind of call, without processes to follow."""
        instance = self._instances[call]
        if call in FILTERS:
            (instance / event / "filter").write_text(FILTERS[call])
        (instance / "buffer_size_kb").write_text(str(BUFFER_KIB))
        (instance / "trace_clock").write_text("mono")
        (instance / "options" / "event-fork").write_text("1")
        (instance / "set_event_pid").write_text(str(os.getpid()))
        (instance / event / "enable").write_text("1")

    def _check_that_calls_are_seen(self) -> None:
        """Check that a call of this process is counted.

        In a PID namespace, the kernel's process IDs differ from the IDs that this process sees, so nothing would be
        counted.
        """
        instance = self._instances["fsync"]
        (instance / "set_event_pid").write_text(str(threading.get_native_id()))
        before = _count(instance)
        with tempfile.TemporaryFile() as file:
            os.fsync(file.fileno())
        if _count(instance) != before + 1:
            if preloaded(os.getpid()):
                raise Unavailable("a preloaded library (LD_PRELOAD) keeps dyno's own fsync from the kernel")
            raise Unavailable("the kernel's process IDs differ from those in this PID namespace")

    def _follow(self) -> None:
        """Follow all threads of the processes instead of this thread, and look again until no new thread appears.

        A thread that starts while the list is written may have been started by a thread that was not followed yet.
        """
        followed: set[int] = set()
        for _ in range(SETTLED_LOOKS):
            threads = processes.threads(self._pids)
            if not threads:
                raise Unavailable("the processes to follow have ended")
            if threads <= followed:
                return
            for instance in self._instances.values():
                with (instance / "set_event_pid").open("w" if not followed else "a") as file:
                    file.write(" ".join(map(str, sorted(threads - followed))))
            followed |= threads
        raise Unavailable("the processes start new threads faster than dyno can follow them")

    def _close(self) -> None:
        for instance in self._instances.values():
            with contextlib.suppress(OSError):
                _remove(instance)
        self._instances = {}
        if self._mount is not None:
            os.close(self._mount)
            self._mount = None


def _events(events: Path) -> dict[str, str]:
    """Return the path of the event for each call that this kernel traces."""
    paths = {call: f"events/syscalls/sys_enter_{call}" for call in CALLS}
    paths[OPEN_SYNC] = "events/syscalls/sys_enter_openat"
    by_io_uring = (f"events/io_uring/{event}" for event in IO_URING_EVENTS)
    if path := next((path for path in by_io_uring if (events.parent / path).is_dir()), None):
        paths[IO_URING] = path
    return {call: path for call, path in paths.items() if (events.parent / path).is_dir()}


def preloaded(pid: int) -> list[str]:
    """Return the libraries preloaded into a process (ld.so(8)), which may answer its syncs themselves.

    Libraries in LD_PRELOAD are missing if the environment of the process can't be read.
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
    """Return a file descriptor of a tracefs mount without a mount point. Raises Unavailable.

    The mount ends with this process and is not visible to other processes.
    """
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "fsopen"):
        raise Unavailable("the C library lacks fsopen(2)")
    context = _checked(library.fsopen(b"tracefs", FSOPEN_CLOEXEC))
    try:
        _checked(library.fsconfig(context, FSCONFIG_CMD_CREATE, None, None, 0))
        return _checked(library.fsmount(context, FSMOUNT_CLOEXEC, 0))
    finally:
        os.close(context)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise Unavailable(f"can't mount tracefs: {os.strerror(number)}")
    return result


def remove_abandoned() -> None:
    """Remove the tracefs instances that counters of killed processes left, as far as this user is allowed to."""
    with contextlib.suppress(OSError, Unavailable):
        mount = _mount_tracefs()
        try:
            remove_stale(Path(f"/proc/self/fd/{mount}/instances"))
        finally:
            os.close(mount)


def remove_stale(instances: Path) -> None:
    """Remove instances of counters whose process ended without removing them."""
    for instance in instances.iterdir():
        match = INSTANCE.fullmatch(instance.name)
        if match and has_ended(*map(int, match.groups())):
            with contextlib.suppress(OSError):
                _remove(instance)


def _remove(instance: Path) -> None:
    """Remove an instance: tracefs allows rmdir(2) although the directory has files."""
    instance.rmdir()


def _count(instance: Path, until_s: float = math.inf) -> int:
    """Return the number of events written to an instance until `until_s`. Raises Unavailable if some were lost."""
    total = 0
    for statistics in (instance / "per_cpu").glob("cpu*/stats"):
        found = {name: int(value) for name, value in STATISTIC.findall(statistics.read_text())}
        if any(found.get(name, 0) for name in LOST):
            raise Unavailable("the kernel lost events")
        # In an unread instance, "entries" counts the events still in the buffer, and "overrun" the
        # overwritten ones.
        total += sum(found.get(name, 0) for name in COUNTED)
    # Before Linux 5.9, reading the trace pauses tracing, so don't read it.
    if until_s == math.inf or not total or not (instance / "options" / "pause-on-trace").exists():
        return total
    return _counted_until(until_s, (instance / "trace").read_text(), total)


def _counted_until(until_s: float, trace: str, total: int) -> int:
    """Return the number of events written until `until_s`, or `total` if it can't be determined.

    `trace` begins with the number of events in the buffers and the number of all written events. The events in the
    buffers follow in order of time, then the events that were written while the trace was read.
    """
    if not (head := TRACED.search(trace)):
        return total
    held, written = map(int, head.groups())
    events = [(cpu, float(at_s)) for cpu, at_s in EVENT.findall(trace)[:held]]
    first_s = dict(reversed(events))
    if len(events) < held or (held < written and any(at_s > until_s for at_s in first_s.values())):
        return total  # some events after `until_s` may be overwritten
    return written - sum(at_s > until_s for _, at_s in events)


def disk_fsync_s(directory: Path, count: int = 100) -> list[float]:
    """Return the times of `count` fsync(2) calls in order, in s. A temporary file grows by 4 KiB before each call.

    So each call writes data and the file's new size, as when a program saves a document. The time of write(2) is not
    included. Raises OSError.
    """
    block = os.urandom(BLOCK_BYTES)
    taken_s = []
    with probe_file(directory) as opened:
        for _ in range(count):
            os.write(opened, block)
            begun_s = time.perf_counter()
            os.fsync(opened)
            taken_s.append(time.perf_counter() - begun_s)
    return taken_s
