"""The generator's and the server's counts of requests, from the check before the load to the removal of the objects."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from serverdyno import _native
from serverdyno.plan.model import Level, RunKey
from serverdyno.store.experiment import Experiment
from serverdyno.store.records import LevelRecord
from support.experiments import Listener, carried_out
from support.objects import created
from support.reference_servers import start_s3

pytestmark = pytest.mark.usefixtures("short_windows")
CLIENTS, OBJECTS = 4, 8
NAMES = {
    "get": "GetObject",
    "get_range": "GetObject",
    "head": "HeadObject",
    "put": "PutObject",
    "copy": "CopyObject",
    "delete": "DeleteObject",
    "delete_many": "DeleteObjects",
    "list": "ListObjects",
}
WEIGHTS = {
    "get": 40,
    "get_range": 5,
    "head": 25,
    "put": 20,
    "copy": 2,
    "delete": 5,
    "delete_many": 1,
    "list": 2,
}


class Counts(Listener):
    """Reads the server's counts after the check before the load, and after the level and its removal."""

    def __init__(self, server: _native.ReferenceS3) -> None:
        super().__init__()
        self.server, self.before, self.after = server, dict[str, int](), dict[str, int]()

    def level_started(self, run: RunKey, level: Level, left_s: float) -> None:
        self.before = self.server.requests()

    def level_finished(self, record: LevelRecord) -> None:
        self.after = self.server.requests()


def loaded(folder: Path, weights: dict[str, int]) -> tuple[Counts, Counter[str], Experiment]:
    """Load a server for one level. Return its counts before and after the level, and at the end."""
    server = start_s3()
    try:
        url = f"s3://127.0.0.1:{server.port}/volume1"
        created(folder, url, clients=[CLIENTS], length_s=2, weights=weights)
        counts = Counts(server)
        assert carried_out(folder, counts), counts.failures
        return counts, Counter(server.requests()), Experiment.open(folder)
    finally:
        server.stop()


def test_in_a_level_the_server_has_served_each_operation_that_we_count_and_no_other(tmp_path: Path) -> None:
    counts, _, experiment = loaded(tmp_path / "e", WEIGHTS)
    [record] = experiment.levels()
    assert record.errors == []
    served = Counter(counts.after) - Counter(counts.before)
    measured = Counter[str]()
    for row in record.by_operation:
        measured[NAMES[row.operation]] += row.count
    around = Counter(
        {
            "PutObject": CLIENTS * OBJECTS,
            # Each client deletes the objects that it knows of, then looks for others; for uploads only if an object is
            # as large as one. After the level, three requests check whether a user's server still answers: a list of
            # objects, one of uploads, and one for the versioning.
            "DeleteObjects": CLIENTS,
            "ListObjects": CLIENTS + 1,
            "ListMultipartUploads": 1,
            "OfBuckets": 1,
        }
    )
    in_flight = served - measured - around
    assert served == measured + around + in_flight
    # Operations in flight when the window closed are in no figure, and each was one request.
    assert in_flight.total() == record.operations_total - record.operations == record.under_way_at_close
    named = Counter({row.request.removesuffix("V2"): row.count for row in record.requests})
    assert named == measured + in_flight


def test_the_runs_number_of_requests_is_the_servers_but_for_the_looks_around(tmp_path: Path) -> None:
    _, at_end, experiment = loaded(tmp_path / "e", {"get": 45, "put": 15, "head": 30, "delete": 10})
    [note] = experiment.run_notes().values()
    # Clients send one list for each removal, including that of the check before the load. All other lists and requests
    # for the versioning check whether the server answers, and what it contains.
    looks = at_end["ListObjects"] - (CLIENTS + 1) + at_end["ListMultipartUploads"] + at_end["OfBuckets"]
    assert looks > 0 and note.requests_answered == at_end.total() - looks
