"""A run's note if the tool is killed: it is the last file of a run, and a lost note is reported."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import serverdyno
from serverdyno import report
from serverdyno.plan.model import ServerPlan
from serverdyno.store.experiment import Experiment
from serverdyno.store.note import FsyncTimes, LayerNote, RunNote
from support.dyno_process import PATIENCE_S, Home, experiment
from support.places import TESTS

REFERENCE = ServerPlan(server="reference")
KILLED = """
import os, signal, sys
from pathlib import Path
from serverdyno.run.experiment import carry_out
from serverdyno.store.experiment import Experiment
from support.experiments import Listener


class Killed(Listener):
    def level_finished(self, record):
        if record.level == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)


carry_out(Experiment.open(Path(sys.argv[1]), writable=True), Killed())
"""


def killed_after(level: int, folder: Path, home: Home) -> None:
    """Carry out an experiment in a process that is killed once this level is stored."""
    paths = os.pathsep.join(map(str, (Path(serverdyno.__file__).parent.parent, TESTS)))
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(folder), str(level)],
        env=home.environment | {"PYTHONPATH": paths},
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL


def test_a_run_that_is_killed_after_its_last_level_says_what_of_its_note_is_lost(
    home: Home, tmp_path: Path
) -> None:
    folder = experiment(tmp_path / "e", [REFERENCE], clients=[1, 2], think_time_s=0.005)
    killed_after(2, folder, home)
    opened = Experiment.open(folder)
    assert (opened.finished(), opened.run_notes()) == ({(1, 1), (1, 2)}, {1: RunNote(state="begun")})
    [said] = [warning for warning in report.build(opened).warnings if warning.startswith("Run 1")]
    assert "It is still running or was killed" in said

    done = home.here("resume", folder)
    assert done.returncode == 0
    assert "run 1, reference: " in done.stderr and ", but its final note is lost: " in done.stderr
    assert opened.run_notes() == {1: RunNote(state="lost")}
    [said] = [warning for warning in report.build(opened).warnings if warning.startswith("Run 1")]
    assert "Not known: the server's count of requests" in said
    assert said.split(".")[0] in (folder / "report" / "report.html").read_text()
    again = home.here("resume", folder)
    assert (again.returncode, "is lost" in again.stderr) == (0, False)


def test_a_run_that_a_resume_carried_on_says_of_which_levels_its_note_is(home: Home, tmp_path: Path) -> None:
    folder = experiment(tmp_path / "e", [REFERENCE], clients=[1, 2], think_time_s=0.005)
    killed_after(1, folder, home)
    assert home.here("resume", folder).returncode == 0
    opened = Experiment.open(folder)
    [note] = opened.run_notes().values()
    assert (note.state, note.from_level) == ("done", 2)
    [said] = [warning for warning in report.build(opened).warnings if warning.startswith("Run 1")]
    assert "was interrupted and resumed at load level 2" in said


@pytest.mark.parametrize("state", ["lost", "failed"])
def test_what_a_run_noted_of_its_disk_before_its_levels_is_kept(state: str) -> None:
    begun = RunNote(
        state="begun",
        disk_fsync_ms=FsyncTimes(count=100, p50=1, p99=2, max=3),
        syncs_unknown_because=None,
        media=[[LayerNote(file_system="ext4", options=["rw"], device="vda1")]],
        synchronous=[False],
        volume_fsync_ms=[1.5],
        preloaded=["libeatmydata.so"],
    )
    kept = RunNote(state=state, **begun.of_the_disk())  # type: ignore[arg-type]
    assert kept.as_json() == begun.as_json() | {"state": state}
