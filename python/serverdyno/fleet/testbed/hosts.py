"""A host: processes of this machine with their own network, mounts, host name, process IDs and clock.

A host's namespaces have no names outside. They exist as long as its first process (`host.py`), which ends with the
tool, even if the tool is killed. So nothing is left behind, and no later run has to clean up. `network.py` defines the
links.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from serverdyno.errors import DynoError, UserError
from serverdyno.fleet.testbed.host import READY
from serverdyno.units import NS_PER_S

FIRST = Path(__file__).with_name("host.py")
CLOCK = Path(__file__).with_name("clock.py")
START_S = 60.0
END_S = 10.0
NEEDED = {"unshare": "util-linux", "nsenter": "util-linux", "ip": "iproute2", "tc": "iproute2"}
"""Required programs, and their Debian packages."""


def check_possible() -> None:
    """Raise UserError if hosts can't be created on this machine."""
    absent = sorted({package for program, package in NEEDED.items() if shutil.which(program) is None})
    problems = [f"not installed: {', '.join(absent)} (apt-get install {' '.join(absent)})"] if absent else []
    if os.geteuid() != 0:
        problems.append("only root can create network namespaces")
    if problems:
        raise UserError(
            "can't create a testbed here:\n" + "\n".join(problems),
            hint="Without [testbed] or --testbed, the load goes over loopback.",
        )


class Host:
    """One host. `pid` is the ID of its first process in this machine's PID namespace."""

    def __init__(self, name: str, *, clock_offset_s: float = 0.0) -> None:
        """Start the host. Its monotonic clock is `clock_offset_s` ahead of this machine's."""
        self.name = name
        command = ["unshare", "--net", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
        if clock_offset_s:
            command = [
                sys.executable,
                "-I",
                "-S",
                str(CLOCK),
                str(round(clock_offset_s * NS_PER_S)),
                *command,
            ]
        inner = 'mount -t sysfs none /sys && hostname "$1" && shift && exec "$@"'
        self._process = subprocess.Popen(
            [*command, "sh", "-c", inner, "sh", name, sys.executable, "-I", "-S", str(FIRST)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.pid = 0

    def wait_until_ready(self) -> None:
        """Wait until the first process reports that it is ready. Raises DynoError."""
        assert self._process.stdout is not None and self._process.stderr is not None
        watch = select.poll()
        watch.register(self._process.stdout, select.POLLIN)
        said = self._process.stdout.readline() if watch.poll(START_S * 1000) else b""
        if said.strip() != READY.encode():
            self._process.kill()
            words = self._process.stderr.read().decode(errors="replace").strip()
            raise DynoError(
                f"can't create the host {self.name} of the testbed: {words or 'it did not start'}",
                hint=(
                    "A testbed needs the right to create network, mount, UTS, PID and time namespaces. Containers "
                    "often lack this right."
                ),
            )
        [first] = psutil.Process(self._process.pid).children()
        self.pid = first.pid

    @property
    def network(self) -> Path:
        """The file of the host's network namespace."""
        return Path(f"/proc/{self.pid}/ns/net")

    def begin(self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
        """Start a command on the host without waiting for it. Raises DynoError if the host has ended."""
        self._tell({"command": list(command), "log": str(log), "environment": dict(environment or {})})

    def remove_at_end(self, directory: Path) -> None:
        """Let the host remove a directory when it ends, even if the tool is killed. Raises DynoError."""
        self._tell({"remove": str(directory)})

    def _tell(self, what: Mapping[str, object]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(what).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise DynoError(f"the testbed's host {self.name} has ended: {error}") from error

    def run(self, program: str, *words: str, text: str = "") -> str:
        """Run a program in the host's network and mounts, with `text` as input, and return its output.

        Raises DynoError.
        """
        command = ["nsenter", "--target", str(self.pid), "--net", "--mount", "--", program, *words]
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=START_S, check=False
        )
        if done.returncode != 0:
            raise DynoError(
                f"{program} {' '.join(words)} on {self.name}: {done.stderr.strip()}\n{text}".rstrip()
            )
        return done.stdout

    def processes(self) -> list[psutil.Process]:
        """Return every current process of the host except the first."""
        with contextlib.suppress(psutil.NoSuchProcess):
            found: list[psutil.Process] = psutil.Process(self.pid).children(recursive=True)
            return found
        return []

    def end(self) -> None:
        """End all processes of the host, and with them its network. May be called repeatedly."""
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
