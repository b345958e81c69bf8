"""A real fleet for tests: its scheduler and its nodes, each a process of its own on loopback."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from dyno_process import DYNO, PATIENCE_S, wait_for_line
from serverdyno.fleet.folder import FleetFolder, create
from serverdyno.fleet.up import scheduler_process, start_scheduler

NAMES = ("a", "b", "c")


@dataclass
class RunningFleet:
    """A fleet and its processes."""

    folder: FleetFolder
    nodes: dict[str, subprocess.Popen[str]]
    stack: ExitStack

    @property
    def path(self) -> Path:
        return self.folder.path

    def start_node(self, name: str, before: Sequence[str] = ()) -> None:
        """Start a node, and wait until it has joined. `before`: what its command is given to."""
        command = [*before, *DYNO, "node", str(self.folder.node(name))]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        self.stack.callback(ended, process)
        wait_for_line(process, f"{name} has joined")
        self.nodes[name] = process


def ended(process: subprocess.Popen[str]) -> None:
    """Whatever state it is in."""
    process.kill()
    with process:
        process.wait(PATIENCE_S)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running_fleet(
    path: Path, names: Sequence[str] = NAMES, before: Mapping[str, Sequence[str]] | None = None
) -> Iterator[RunningFleet]:
    """A fleet that is up, until the block ends."""
    folder = create(path, f"127.0.0.1:{free_port()}", list(names), days=1)
    with ExitStack() as stack:
        stack.callback(end_scheduler, folder)
        start_scheduler(folder)
        fleet = RunningFleet(folder, {}, stack)
        for name in names:
            fleet.start_node(name, (before or {}).get(name, ()))
        yield fleet


def end_scheduler(folder: FleetFolder) -> None:
    if (process := scheduler_process(folder)) is not None:
        process.kill()
        process.wait(PATIENCE_S)
