"""Objects of a load whose generator process or whole command was killed: removed, or named with a remedy."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from serverdyno import _native
from serverdyno.store.experiment import Experiment
from support.dyno_process import PATIENCE_S, Home, wait_for_line, wait_until
from support.experiments import Breaker, Listener, carried_out
from support.objects import PARTS, created, keys
from support.reference_servers import start_s3

pytestmark = pytest.mark.usefixtures("short_windows")
WORKER = "serverdyno.fleet.worker"


@pytest.fixture
def server() -> Iterator[_native.ReferenceS3]:
    running = start_s3(objects={"mine": b"of the user"})
    yield running
    running.stop()


def url_of(server: _native.ReferenceS3) -> str:
    return f"s3://127.0.0.1:{server.port}/volume1"


def kill_a_worker() -> None:
    workers = [process for process in psutil.Process().children() if WORKER in process.cmdline()]
    os.kill(workers[1].pid, signal.SIGKILL)


@pytest.mark.parametrize("objects", [{}, PARTS], ids=["whole", "in parts"])
def test_a_killed_generator_process_fails_its_run_and_nothing_of_its_clients_is_left(
    tmp_path: Path, server: _native.ReferenceS3, objects: dict[str, Any]
) -> None:
    # Long enough that the level has not ended before the process is killed in it.
    folder = created(tmp_path / "e", url_of(server), clients=[2, 4], processes=2, length_s=3, **objects)
    breaker = Breaker(kill_a_worker)
    assert not carried_out(folder, breaker)
    [failure] = breaker.failures
    assert "generator process 2 of 2 ended: signal 9" in failure
    assert breaker.notices == []
    assert (keys(server.port), keys(server.port, "uploads")) == (["mine"], [])
    assert Experiment.open(folder).finished() == {(1, 1)}
    listener = Listener()
    assert carried_out(folder, listener), listener.failures  # a resume does the rest
    assert len(Experiment.open(folder).finished()) == 2
    assert all(not record.errors for record in Experiment.open(folder).levels())
    assert keys(server.port) == ["mine"]


def test_a_resume_after_kill_names_what_is_left_and_leaves_it_and_nothing_else(
    home: Home, tmp_path: Path, server: _native.ReferenceS3
) -> None:
    folder = created(tmp_path / "e", url_of(server), clients=[2], length_s=3, processes=2)
    with home.started("resume", folder) as dyno:
        wait_for_line(dyno, "starting")
        wait_until(lambda: len(keys(server.port)) > 2, "objects are put")
        processes = home.processes()
        dyno.kill()
        dyno.wait(PATIENCE_S)
    assert psutil.wait_procs(processes, timeout=PATIENCE_S)[1] == []
    left = keys(server.port)
    assert "mine" in left and len(left) > 1
    listener = Listener()
    assert carried_out(folder, listener), listener.failures
    [notice] = listener.notices
    assert "already exists on bucket volume1, from a load that was killed" in notice
    assert "s3 rm --recursive s3://volume1/" in notice and "abort-multipart-upload" in notice
    assert keys(server.port) == left
    [record] = Experiment.open(folder).levels()
    assert record.operations and not record.errors
