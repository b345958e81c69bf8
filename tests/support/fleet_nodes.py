"""A real fleet for tests: its scheduler and its nodes, each a process of its own on loopback."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from serverdyno.fleet.folder import FleetFolder, create
from serverdyno.fleet.up import scheduler_process, start_scheduler
from serverdyno.servers.proof import free_port
from support.dyno_process import DYNO, PATIENCE_S, wait_for_line

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

    def start_nodes(self, names: Sequence[str], before: Mapping[str, Sequence[str]] | None = None) -> None:
        """Start nodes, and wait until all have joined; `before` has the commands that run some of them."""
        for name in names:
            command = [*(before or {}).get(name, ()), *DYNO, "node", str(self.folder.node(name))]
            process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
            self.stack.callback(ended, process)
            self.nodes[name] = process
        for name in names:
            wait_for_line(self.nodes[name], f"{name} has joined")

    def kill(self, name: str) -> None:
        """Kill a node, as the kernel does when memory is short."""
        self.nodes[name].kill()
        self.nodes[name].wait(PATIENCE_S)

    def mend(self) -> None:
        """Restart processes that have ended, and continue stopped ones."""
        if scheduler_process(self.folder) is None:
            start_scheduler(self.folder)
        for node in self.nodes.values():
            node.send_signal(signal.SIGCONT)
        self.start_nodes([name for name, node in self.nodes.items() if node.poll() is not None])


def look_often(patch: pytest.MonkeyPatch) -> None:
    """Let every node report the state of its level ten times per second, so that a short one is seen under way."""
    patch.setattr("serverdyno.fleet.cluster.DaskNode.look_s", 0.1)


def ended(process: subprocess.Popen[str]) -> None:
    """Kill a process and wait for its end, whatever its state."""
    process.kill()
    with process:
        process.wait(PATIENCE_S)


@contextmanager
def running_fleet(
    path: Path, names: Sequence[str] = NAMES, before: Mapping[str, Sequence[str]] | None = None
) -> Iterator[RunningFleet]:
    folder = create(path, f"127.0.0.1:{free_port()}", list(names), days=1)
    with ExitStack() as stack:
        stack.callback(end_scheduler, folder)
        start_scheduler(folder)
        fleet = RunningFleet(folder, {}, stack)
        fleet.start_nodes(names, before)
        yield fleet


def end_scheduler(folder: FleetFolder) -> None:
    if (process := scheduler_process(folder)) is not None:
        process.kill()
        process.wait(PATIENCE_S)
