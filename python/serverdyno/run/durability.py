"""What a run says of durability: what its files lie on, what the disk's own fsync takes, and the syncs that the server
really made.

Of file servers only: a web server that serves documents promises nothing of the kind.
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
from serverdyno.probes.durability import FsyncCounter, disk_fsync_s, preloaded
from serverdyno.probes.medium import LayerReading, medium
from serverdyno.probes.synchronous import synchronous
from serverdyno.run.outage import cut_of
from serverdyno.servers.base import RunningServer
from serverdyno.store import note
from serverdyno.store.note import FsyncTimes
from serverdyno.store.records import DATA_CALLS

VOLUME_FSYNCS = 20
"""Number of fsyncs on each further volume. The median is compared with a value a hundred times smaller."""


@dataclass(slots=True)
class Durability:
    """Of one run. `disk_fsync_ms`: percentiles and count of the data directory's own fsync, before any load.
    `media`: what each volume is on, from its file system down; empty: not known. `synchronous`: whether each writes at
    once. `volume_fsync_ms`: the median fsync of each, before any load. `preloaded`: libraries before all others, in
    this tool and in the server.
    """

    server: RunningServer | None = None
    counter: FsyncCounter | None = None
    disk_fsync_ms: FsyncTimes | None = None
    media: list[list[LayerReading]] = field(default_factory=list)
    synchronous: list[bool | None] = field(default_factory=list)
    volume_fsync_ms: list[float | None] = field(default_factory=list)
    preloaded: list[str] = field(default_factory=list)
    served_before: int | None = None

    def syncs(self, until_s: float = math.inf) -> dict[str, int] | None:
        """Return the system calls by which the server's processes asked for the disk until a moment of the monotonic
        clock; None: not known.
        """
        return self.counter.counts(until_s) if self.counter else None

    def note_before(self) -> dict[str, Any]:
        """What a run's note says of it from before the first mix on, so that a failure does not lose it; nothing where
        the run has no file server.
        """
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
        """The same after the last mix, while the server runs: the disk is asked once more, and the two who count syncs.

        Ask after `requests_served`, which waits until the server has written its counters down.
        """
        before = self.note_before()
        if not before or self.server is None:
            return {}
        served = self.server.syncs_served()
        counts = self.syncs()
        known = served is not None and self.served_before is not None
        return {
            **before,
            "disk_fsync_after_ms": _disk_fsync_ms(self.server),
            "syncs_by_server": (served or 0) - (self.served_before or 0) if known else None,
            "syncs_by_kernel": sum(counts.get(call, 0) for call in DATA_CALLS) if counts else None,
        }


@contextmanager
def watched(server: RunningServer, suites: Sequence[Suite]) -> Iterator[Durability]:
    """Watches a file server that is running for as long as load goes to it.

    The kernel's count begins before the server's own is read, and ends after it: so the server can't have counted more.
    """
    # The syncs of a server that is killed and started again can't be counted through: it is another process.
    if not all(suite.work.has_durability and cut_of(suite) is None for suite in suites):
        yield Durability()
        return
    with FsyncCounter(server.pids()) as counter:
        directories = server.data_directories()
        first = _disk_fsync_ms(server)
        yield Durability(
            server,
            counter,
            first,
            _media(server),
            [synchronous(directory) for directory in directories],
            _volume_fsync_ms(directories, first),
            _preloaded(server),
            server.syncs_served(),
        )


def _plain(layer: LayerReading) -> dict[str, Any]:
    told = asdict(layer)
    return {**told, "options": list(told["options"]), "devices": list(told["devices"])}


def _media(server: RunningServer) -> list[list[LayerReading]]:
    """Volume by volume, by what the server's first process has mounted."""
    pids = server.pids()
    return [medium(directory, pids[0]) for directory in server.data_directories()] if pids else []


def _preloaded(server: RunningServer) -> list[str]:
    return list(
        dict.fromkeys(library for pid in (os.getpid(), *server.pids()[:1]) for library in preloaded(pid))
    )


def _volume_fsync_ms(directories: Sequence[Path], first: FsyncTimes | None) -> list[float | None]:
    """Return the median fsync of each volume in ms, or None if not measured. A file system is measured once.

    `first`: times of the first volume, which are known already.
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


def _disk_fsync_ms(server: RunningServer) -> FsyncTimes | None:
    """None: where the server keeps its files is not known, or can't be written by us."""
    directories = server.data_directories()
    if not directories:
        return None
    try:
        taken_ms = [taken_s * 1000 for taken_s in disk_fsync_s(directories[0])]
    except OSError:
        return None
    percentiles = statistics.quantiles(taken_ms, n=100, method="inclusive")
    return FsyncTimes(count=float(len(taken_ms)), p50=percentiles[49], p99=percentiles[98], max=max(taken_ms))
