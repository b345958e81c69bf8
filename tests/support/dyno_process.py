"""`dyno` as its users run it: a separate process, with its own directory for temporary files.

Every server that it starts has that directory in its command line or environment, so that its remains can be
distinguished from everything else on the machine.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from serverdyno import cli
from serverdyno.errors import ServerError
from serverdyno.plan.model import Plan, ServerPlan, Suite
from serverdyno.run.create import create_experiment
from serverdyno.servers.base import ServerDriver
from serverdyno.servers.documents import document_root
from serverdyno.servers.proof import listeners
from serverdyno.servers.registry import DRIVERS

PATIENCE_S = 180.0  # many times the longest wait on a quiet machine, so that it ends only hanging waits
ENDS = (signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP)
DYNO = [sys.executable, "-m", "serverdyno"]
INSTALLED = [name for name in ("nginx", "apache", "lighttpd") if DRIVERS[name].installed()]


@dataclass(frozen=True)
class Home:
    """The directory for temporary files and user settings of one test session's processes."""

    temporary: Path

    @property
    def environment(self) -> dict[str, str]:
        ours = {
            "TMPDIR": str(self.temporary),
            "XDG_CONFIG_HOME": str(self.temporary / "config"),
            "TERM": "xterm",
        }
        others = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
        return {name: value for name, value in os.environ.items() if name not in others} | ours

    def dyno(self, *arguments: str | Path, **changed: str) -> subprocess.CompletedProcess[str]:
        """Run `dyno` to its end, without a terminal."""
        return self.run([*DYNO, *map(str, arguments)], **changed)

    def run(self, command: Sequence[str | Path], **changed: str) -> subprocess.CompletedProcess[str]:
        """Run a command that starts `dyno` to its end, without a terminal."""
        return subprocess.run(
            command,
            env=self.environment | changed,
            cwd=self.temporary,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def here(self, *arguments: str | Path, **changed: str) -> subprocess.CompletedProcess[str]:
        """Run `dyno` to its end in this process, for tests that do not examine the process itself.

        This process has imported everything already. An unexpected exception is raised, not printed.
        """
        written, err = io.BytesIO(), io.StringIO()
        out = io.TextIOWrapper(written, "utf-8", write_through=True)
        handlers = {number: signal.getsignal(number) for number in ENDS}
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            for name in os.environ.keys() - self.environment.keys():
                patch.delenv(name)
            for name, value in (self.environment | changed).items():
                patch.setenv(name, value)
            patch.chdir(self.temporary)
            patch.setattr(sys, "argv", ["dyno", *map(str, arguments)])
            try:
                status: Any = 0
                cli.main()
            except SystemExit as end:
                status = end.code or 0
            finally:
                for number, handler in handlers.items():
                    signal.signal(number, handler)
        assert isinstance(status, int), status
        return subprocess.CompletedProcess(arguments, status, written.getvalue().decode(), err.getvalue())

    @contextmanager
    def started(self, *arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
        """Yield a running `dyno`, and kill it at the end if it still runs."""
        process = subprocess.Popen(
            [*DYNO, *map(str, arguments)],
            env=self.environment,
            cwd=self.temporary,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with process:
            try:
                yield process
            finally:
                process.kill()

    def processes(self) -> list[psutil.Process]:
        """Return every process that names the directory: `dyno`, keepers and servers."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                words = [*process.cmdline(), *process.environ().values()]
                if any(str(self.temporary) in word for word in words):
                    found.append(process)
        return found

    def ports(self) -> list[int]:
        """Return the ports on which one of these processes listens."""
        found = []
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                found += [
                    connection.laddr.port
                    for connection in process.net_connections(kind="tcp")
                    if connection.status == psutil.CONN_LISTEN
                ]
        return found

    def assert_nothing_is_left(self, ports: Sequence[int]) -> None:
        """Check that no process, no listener on `ports` and no private directory is left.

        The document tree stays for the next run.
        """
        assert self.processes() == []
        assert [listeners(port) for port in ports] == [[] for _ in ports]
        assert list(self.temporary.glob("serverdyno-*-*")) == []


@contextmanager
def new_home() -> Iterator[Home]:
    """Create a home, with the common document tree, that servers' workers can enter as another user."""
    tree = document_root()
    with tempfile.TemporaryDirectory(prefix="dyno-test-") as name:
        Path(name).chmod(0o755)
        cache = Path(name) / tree.parent.name
        cache.mkdir()
        (cache / tree.name).symlink_to(tree)
        yield Home(Path(name))


def wait_for_line(process: subprocess.Popen[str], words: str) -> list[str]:
    """Wait for a line on standard error that contains `words`; return the lines up to it."""
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if words in line:
            return lines
    raise AssertionError("".join(lines))


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition outside the test, and fail after the time limit of all tests."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.01)


def wait_until_missed(server: ServerDriver, words: str) -> None:
    """Wait for the error of a server whose first process has just ended, which its keeper reports a moment later."""
    deadline = time.monotonic() + PATIENCE_S
    with pytest.raises(ServerError, match=words):
        while time.monotonic() < deadline:
            server.check()
            time.sleep(0.01)


SUITE = """
name = "tiny"
title = "Short levels"
source = "a test"
workload = "webbench-static"
clients = {clients}
length_s = 1.3
ramp_up_s = 0.2
"""


def short_suite(path: Path, clients: Sequence[int]) -> Path:
    """Write a suite for plans, with the shortest levels that a plan may have."""
    path.write_text(SUITE.format(clients=list(clients)))
    path.chmod(0o644)
    return path


def experiment(
    folder: Path,
    servers: Sequence[ServerPlan],
    clients: Sequence[int] = (1, 2),
    *,
    length_s: float = 0.6,
    think_time_s: float = 0.0,
) -> Path:
    """Create an experiment with shorter levels than a plan may have, without starting it."""
    suite = Suite(
        name="tiny",
        title="Tiny",
        source="a test",
        workload="webbench-static",
        clients=list(clients),
        length_s=length_s,
        think_time_s=think_time_s,
        ramp_up_s=0.1,
        ramp_down_s=0.1,
    )
    plan = Plan(name="tiny", title="Tiny", suite="tiny", repetitions=1, servers=list(servers))
    with create_experiment(folder, "# made by a test\n", plan, [suite]):
        pass
    return folder


def ended(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


two_cpus = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="generator and server need a CPU each")
