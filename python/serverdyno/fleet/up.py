"""Start and end a fleet's scheduler on this machine, or a whole fleet.

`scheduler.py` is the scheduler, and `ssh.py` reaches the hosts.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from serverdyno.errors import DynoError, UserError
from serverdyno.fleet import cluster as backend
from serverdyno.fleet import link, ssh
from serverdyno.fleet.folder import CONTROLLER, HOSTS, RUNNING, SCHEDULER_LOG, FleetFolder
from serverdyno.fleet.private_file import write_private

MODULE = "serverdyno.fleet.scheduler"
START_S = 60.0
JOIN_S = 60.0
END_S = 10.0
CHECK_ENDED_S = 0.1
"""Time between two checks of whether a process has ended."""


def start_scheduler(folder: FleetFolder) -> int:
    """Start the scheduler and return its process ID. It keeps running when this process ends.

    Raises DynoError with the scheduler's own message.
    """
    if (running := scheduler_process(folder)) is not None:
        raise UserError(
            f"the scheduler of {folder.name} is already running as process {running.pid}",
            hint=f"To see which nodes have joined: dyno fleet status {folder.path}. "
            f"To end it: dyno fleet down {folder.path}.",
        )
    log_path = folder.path / SCHEDULER_LOG
    write_private(log_path, b"")
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", MODULE, str(folder.path.resolve())],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        link.wait_for(folder.at, folder.path / CONTROLLER, START_S, lambda: process.poll() is None)
    except link.NobodyThere as error:
        process.kill()
        process.wait()
        lines = log_path.read_text(errors="replace").strip().splitlines()
        raise DynoError(
            f"the scheduler of {folder.name} did not start at {folder.at}: "
            f"{lines[-1] if lines else 'it printed no message'}",
            hint=f"Check that the address belongs to this machine, and that the port is free. The "
            f"scheduler's log: {log_path}",
        ) from error
    return process.pid


def start_over_ssh(path: Path) -> tuple[FleetFolder, list[str]]:
    """Start the scheduler and, over SSH, the nodes of a file of hosts. Return the nodes' names once all have joined.

    Raises DynoError after ending everything that was started.
    """
    hosts = ssh.read_hosts(path)
    folder = ssh.folder_of(path, hosts)
    start_scheduler(folder)
    try:
        ssh.start_nodes(folder, hosts)
        with backend.connected(folder) as cluster:
            there = backend.wait_for(cluster, folder.nodes, JOIN_S)
        if missing := [name for name in folder.nodes if name not in there]:
            told = "\n".join(f"{name} says: {ssh.words_of(folder, hosts, name)}" for name in missing)
            raise DynoError(
                f"{len(missing)} of {len(folder.nodes)} nodes did not join within {JOIN_S:g} s\n{told}",
                hint=f"Check that the nodes can reach this machine at {folder.at}.",
            )
    except BaseException:
        with contextlib.suppress(DynoError):
            for _ in end_all(folder):
                pass
        raise
    return folder, list(there)


def scheduler_process(folder: FleetFolder) -> psutil.Process | None:
    """Return the fleet's scheduler on this machine. The process ID in the folder and the command line identify it."""
    try:
        process = psutil.Process(int((folder.path / RUNNING).read_text()))
        words = process.cmdline()
    except (OSError, ValueError, psutil.Error):
        return None
    return process if MODULE in words and words[-1] == str(folder.path.resolve()) else None


def end_all(folder: FleetFolder) -> Iterator[str]:
    """End nodes and scheduler, and yield a line about each."""
    try:
        with backend.connected(folder) as cluster:
            for name in cluster.end_nodes():
                yield f"node {name} ends"
    except link.NobodyThere:
        yield f"no scheduler answers at {folder.at}"
    process = scheduler_process(folder)
    if process is not None:
        process.terminate()
        if not _has_ended(process):
            process.kill()
            _has_ended(process)
        yield "the scheduler has ended"
    if (folder.path / HOSTS).exists():
        hosts = ssh.read_hosts(folder.path / HOSTS)
        ssh.remove_certificates(folder, hosts)
        yield f"{len(hosts.hosts)} hosts no longer have a certificate of this fleet"


def _has_ended(process: psutil.Process) -> bool:
    """Wait for the end of a process that is not a child. A zombie counts as ended. Return whether it has ended."""
    until = time.monotonic() + END_S
    while time.monotonic() < until:
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(CHECK_ENDED_S)
    return False
