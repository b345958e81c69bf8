"""Starts a fleet's scheduler on this machine, and ends a fleet. Not for: what the scheduler does (`scheduler.py`)."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import psutil

from serverdyno.errors import DynoError, UserError
from serverdyno.fleet import cluster as backend
from serverdyno.fleet import link
from serverdyno.fleet.folder import CONTROLLER, RUNNING, FleetFolder

MODULE = "serverdyno.fleet.scheduler"
LOG = "scheduler.log"
START_S = 60.0
END_S = 10.0
LOOK_S = 0.1


def start_scheduler(folder: FleetFolder) -> int:
    """Start the scheduler, which stays when this process ends: its process id. Raises DynoError with its own words."""
    if (running := scheduler_process(folder)) is not None:
        raise UserError(f"the scheduler of {folder.name} runs already, as process {running.pid}")
    with (folder.path / LOG).open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", MODULE, str(folder.path.resolve())],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        if process.poll() is not None:
            break
        try:
            link.check(folder.at, folder.path / CONTROLLER)
        except link.NobodyThere:
            time.sleep(LOOK_S)
            continue
        return process.pid
    process.kill()
    process.wait()
    lines = (folder.path / LOG).read_text(errors="replace").strip().splitlines()
    raise DynoError(
        f"the scheduler of {folder.name} does not start at {folder.at}: {lines[-1] if lines else 'it says nothing'}",
        hint="Is the address one of this machine's, and the port free? " + f"Its log: {folder.path / LOG}",
    )


def scheduler_process(folder: FleetFolder) -> psutil.Process | None:
    """The scheduler of this fleet on this machine, by the process id that it left and by what that process is."""
    try:
        process = psutil.Process(int((folder.path / RUNNING).read_text()))
        words = process.cmdline()
    except (OSError, ValueError, psutil.Error):
        return None
    return process if MODULE in words and words[-1] == str(folder.path.resolve()) else None


def end_all(folder: FleetFolder) -> Iterator[str]:
    """End nodes and scheduler; say of each what came of it."""
    try:
        with backend.connected(folder) as cluster:
            for name in cluster.end_nodes():
                yield f"node {name} ends"
    except link.NobodyThere:
        yield f"no scheduler answers at {folder.at}"
    process = scheduler_process(folder)
    if process is None:
        return
    process.terminate()
    if not _has_ended(process):
        process.kill()
        _has_ended(process)
    yield "the scheduler has ended"


def _has_ended(process: psutil.Process) -> bool:
    """Wait for the end of a process that is nobody's child here: its parent may not have taken note of it yet."""
    until = time.monotonic() + END_S
    while time.monotonic() < until:
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(LOOK_S)
    return False
