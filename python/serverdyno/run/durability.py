"""A run's data on durability: the files' media, the disk's own fsync, and the server's syncs.

They exist only for servers that promise durability: file and object servers.
"""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from serverdyno.plan.model import Suite
from serverdyno.probes.durability import OPEN_SYNC, FsyncCounter, disk_fsync_s, preloaded
from serverdyno.probes.medium import LayerReading, medium
from serverdyno.probes.synchronous import synchronous
from serverdyno.run.outage import cut_of
from serverdyno.servers.base import RunningServer
from serverdyno.store import note
from serverdyno.store.note import FsyncTimes
from serverdyno.store.records import DATA_CALLS

CALLS_OF_SERVERS = tuple(call for call in DATA_CALLS if call != OPEN_SYNC)
"""The calls that a server's own counter of syncs includes."""
SERVERS_MEMORY = "the server's memory"
"""Name of the medium of a server without files, for `analysis/medium.py`."""
VOLUME_FSYNCS = 20
"""Number of fsyncs on each further volume.

A few suffice, because a plausible median is a hundred times the threshold.
"""


@dataclass(slots=True)
class Durability:
    """The durability data of one run.

    `directories`: the directories of the shares; empty if unknown. `disk_fsync_ms`: percentiles and count of the data
    directory's own fsync, before any load. `media`: the layers of each volume, its file system first; empty if unknown.
    `synchronous`: whether each volume writes without a sync. `volume_fsync_ms`: the median fsync of each volume, before
    any load. `preloaded`: libraries of LD_PRELOAD, in this program and in the server.
    """

    server: RunningServer | None = None
    directories: Sequence[Path] = ()
    counter: FsyncCounter | None = None
    disk_fsync_ms: FsyncTimes | None = None
    media: list[list[LayerReading]] = field(default_factory=list)
    synchronous: list[bool | None] = field(default_factory=list)
    volume_fsync_ms: list[float | None] = field(default_factory=list)
    preloaded: list[str] = field(default_factory=list)
    served_before: int | None = None

    def syncs(self, until_s: float = math.inf) -> dict[str, int] | None:
        """Return the number of each sync system call of the server up to a monotonic time; None if unknown."""
        return self.counter.counts(until_s) if self.counter else None

    def note_before(self) -> dict[str, Any]:
        """Return the note to write before the first level, in case the run fails; empty for web servers."""
        if self.counter is None or self.server is None:
            return {}
        return {
            "disk_fsync_ms": self.disk_fsync_ms,
            "syncs_unknown_because": self.counter.reason,
            "media": [
                [note.LayerNote.model_validate(_plain(layer)) for layer in layers] for layers in self.media
            ],
            "synchronous": self.synchronous,
            "volume_fsync_ms": self.volume_fsync_ms,
            "preloaded": self.preloaded,
        }

    def note(self) -> dict[str, Any]:
        """Return the full note after the last level, while the server runs, with a second fsync test.

        Call it after `requests_served`, which waits until the server has written its counters.
        """
        before = self.note_before()
        if not before or self.server is None:
            return {}
        served = self.server.syncs_served()
        counts = self.syncs()
        known = served is not None and self.served_before is not None
        return {
            **before,
            "disk_fsync_after_ms": _disk_fsync_ms(self.directories),
            "syncs_by_server": (served or 0) - (self.served_before or 0) if known else None,
            "syncs_by_kernel": sum(counts.get(call, 0) for call in CALLS_OF_SERVERS) if counts else None,
        }


@contextmanager
def watched(
    server: RunningServer, suites: Sequence[Suite], directories: Sequence[Path]
) -> Iterator[Durability]:
    """Count the syncs of a running file server during the block, and measure the medium of its `directories`.

    The kernel's count begins before the server's own counter is read and ends after the last reading, so the server
    can't have counted more.
    """
    # A server that is killed and restarted is another process, so its syncs can't be counted throughout.
    if not all(suite.work.has_durability and cut_of(suite) is None for suite in suites):
        yield Durability()
        return
    with FsyncCounter(server.pids()) as counter:
        first = _disk_fsync_ms(directories)
        yield Durability(
            server,
            directories,
            counter,
            first,
            _media(server, directories),
            [synchronous(directory) for directory in directories],
            _volume_fsync_ms(directories, first),
            _preloaded(server),
            server.syncs_served(),
        )


def _plain(layer: LayerReading) -> dict[str, Any]:
    told = asdict(layer)
    return {**told, "options": list(told["options"]), "devices": list(told["devices"])}


def _media(server: RunningServer, directories: Sequence[Path]) -> list[list[LayerReading]]:
    """Return the layers of each volume, from the mounts of the server's first process."""
    if getattr(server, "in_memory", False):  # of a reference server, which has no files
        return [[LayerReading(SERVERS_MEMORY, (), "none")]]
    pids = server.pids()
    return [medium(directory, pids[0]) for directory in directories] if pids else []


def _preloaded(server: RunningServer) -> list[str]:
    return list(
        dict.fromkeys(library for pid in (os.getpid(), *server.pids()[:1]) for library in preloaded(pid))
    )


def _volume_fsync_ms(directories: Sequence[Path], first: FsyncTimes | None) -> list[float | None]:
    """Return the median fsync time of each volume in ms; None if not measured. Each file system is measured once.

    `first`: the times of the first volume.
    """
    found: dict[int | Path, float | None] = {}
    medians: list[float | None] = []
    for number, directory in enumerate(directories):
        try:
            file_system: int | Path = directory.stat().st_dev
        except OSError:
            file_system = directory
        if number == 0:
            found[file_system] = first.p50 if first else None
        elif file_system not in found:
            found[file_system] = _median_fsync_ms(directory)
        medians.append(found[file_system])
    return medians


def _median_fsync_ms(directory: Path) -> float | None:
    try:
        return statistics.median(disk_fsync_s(directory, VOLUME_FSYNCS)) * 1000
    except OSError:
        return None


def _disk_fsync_ms(directories: Sequence[Path]) -> FsyncTimes | None:
    """Return fsync times of the first directory; None if the directories are unknown or it is not writable."""
    if not directories:
        return None
    try:
        taken_ms = [taken_s * 1000 for taken_s in disk_fsync_s(directories[0])]
    except OSError:
        return None
    percentiles = statistics.quantiles(taken_ms, n=100, method="inclusive")
    return FsyncTimes(count=float(len(taken_ms)), p50=percentiles[49], p99=percentiles[98], max=max(taken_ms))
