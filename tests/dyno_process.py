"""`dyno` as its users run it: a process of its own, with a directory for temporary files that nobody else has.

Every server that it starts has that directory in its command line or environment, so whatever is left behind by it
can be told from everything else on the machine.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from serverdyno.plan.model import Plan, ServerPlan, Suite
from serverdyno.runner.create import create_experiment
from serverdyno.servers.proof import listeners
from serverdyno.servers.registry import DRIVERS

PATIENCE_S = 60.0
DYNO = [sys.executable, "-m", "serverdyno"]
INSTALLED = [name for name in ("nginx", "apache", "lighttpd") if DRIVERS[name].installed()]


@dataclass(frozen=True)
class Home:
    """Where the processes of one test session keep their temporary files and their user's settings."""

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
        """Runs `dyno` to its end, away from a terminal."""
        return subprocess.run(
            [*DYNO, *map(str, arguments)],
            env=self.environment | changed,
            cwd=self.temporary,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    @contextmanager
    def started(self, *arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
        """`dyno` while it runs. It is killed in the end, where it hasn't ended."""
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
        """Every process that names the directory: `dyno`, keepers and servers."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                words = [*process.cmdline(), *process.environ().values()]
                if any(str(self.temporary) in word for word in words):
                    found.append(process)
        return found

    def ports(self) -> list[int]:
        """Ports on which one of them listens."""
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
        """No process, no listener on `ports`, no private directory; the document tree stays for the next run."""
        assert self.processes() == []
        assert [listeners(port) for port in ports] == [[] for _ in ports]
        assert list(self.temporary.glob("serverdyno-*-*")) == []


@contextmanager
def new_home() -> Iterator[Home]:
    """A home that servers' workers, who run as another user, can enter."""
    with tempfile.TemporaryDirectory(prefix="dyno-test-") as name:
        Path(name).chmod(0o755)
        yield Home(Path(name))


def wait_for_line(process: subprocess.Popen[str], words: str) -> list[str]:
    """The lines on standard error up to the first that contains `words`; the reading waits for the writer."""
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if words in line:
            return lines
    raise AssertionError("".join(lines))


def experiment(
    folder: Path,
    servers: Sequence[ServerPlan],
    clients: Sequence[int] = (1, 2),
    *,
    length_s: float = 0.6,
) -> Path:
    """An experiment that was created and not begun, with mixes shorter than a plan may have."""
    suite = Suite(
        name="tiny",
        title="Tiny",
        source="a test",
        workload="webbench-static",
        clients=list(clients),
        length_s=length_s,
        ramp_up_s=0.1,
        ramp_down_s=0.1,
    )
    plan = Plan(name="tiny", title="Tiny", suite="tiny", repetitions=1, servers=list(servers))
    with create_experiment(folder, "# made by a test\n", plan, suite):
        pass
    return folder
