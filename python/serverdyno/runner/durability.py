"""What a run says of durability: what its files lie on, what the disk's own fsync takes, and the syncs that the server
really made.

Of file servers only: a web server that serves documents promises nothing of the kind.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from serverdyno.plan.model import Suite
from serverdyno.probes.durability import FsyncCounter, disk_fsync_s
from serverdyno.probes.medium import Layer, medium
from serverdyno.servers.base import ServerDriver
from serverdyno.store import note
from serverdyno.store.note import FsyncTimes


@dataclass(slots=True)
class Durability:
    """Of one run. `disk_fsync_ms`: percentiles and count of the data directory's own fsync, before any load.
    `media`: what each volume is on, from its file system down; empty: not known.
    """

    server: ServerDriver | None = None
    counter: FsyncCounter | None = None
    disk_fsync_ms: FsyncTimes | None = None
    media: list[list[Layer]] = field(default_factory=list)

    def syncs(self) -> dict[str, int] | None:
        """System calls so far by which the server's processes asked for the disk; None: not known."""
        return self.counter.counts() if self.counter else None

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
                [
                    note.Layer(
                        file_system=layer.file_system, options=list(layer.options), device=layer.device
                    )
                    for layer in layers
                ]
                for layers in self.media
            ],
        }

    def note(self) -> dict[str, Any]:
        """The same after the last mix, while the server runs: the disk is asked once more."""
        before = self.note_before()
        if not before or self.server is None:
            return {}
        return {**before, "disk_fsync_after_ms": _disk_fsync_ms(self.server)}


@contextmanager
def watched(server: ServerDriver, suite: Suite) -> Iterator[Durability]:
    """Watches a file server that is running for as long as load goes to it."""
    if not suite.work.has_durability:
        yield Durability()
        return
    with FsyncCounter(server.pids()) as counter:
        yield Durability(server, counter, _disk_fsync_ms(server), _media(server))


def _media(server: ServerDriver) -> list[list[Layer]]:
    """Volume by volume, by what the server's first process has mounted."""
    pids = server.pids()
    return [medium(directory, pids[0]) for directory in server.data_directories()] if pids else []


def _disk_fsync_ms(server: ServerDriver) -> FsyncTimes | None:
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
