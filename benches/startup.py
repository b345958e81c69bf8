"""Measure the start of commands: CPU time and peak memory of whole short commands, and of `load` to its first packet.

As in an installed tool, modules are compiled beforehand. Child processes count, because `dyno servers` asks each
program for its version.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import psutil

from benches.ratios import Bound
from benches.rounds import BenchError

MEMORY = Bound(70, at_least=False)
"""Peak resident set, in MB."""
COMMANDS = {
    "plan check": (("plan", "check", str(Path(__file__).parent.parent / "plans" / "quick-web.toml")), 0.35),
    "servers": (("servers",), 0.35),
    "list": (("list", "."), 0.35),
}
"""The arguments of each command, and the target for its CPU time, in s."""
FIRST_PACKET, FIRST_PACKET_CPU_S = "load, to its first packet", 0.5
TARGETS = {name: Bound(cpu_s, at_least=False) for name, (_, cpu_s) in COMMANDS.items()} | {
    FIRST_PACKET: Bound(FIRST_PACKET_CPU_S, at_least=False)
}
WAIT_S = 60
STARTS_ONE = """
import os, sys
process = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, used = os.wait4(process, 0)
print()
print(used.ru_utime + used.ru_stime, used.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status))
"""


@dataclass(frozen=True, slots=True)
class Start:
    """One start of a command."""

    command: str
    round: int
    cpu_s: float
    peak_mb: float


def measured(rounds: int) -> list[Start]:
    """Start each command once per round, in turn, after a first start that compiles its modules.

    Raises BenchError.
    """
    found = []
    with tempfile.TemporaryDirectory(prefix="serverdyno-bench-") as folder:
        for number in range(-1, rounds):
            for name, (arguments, _) in COMMANDS.items():
                found.append(Start(name, number, *_whole(arguments, folder)))
            found.append(Start(FIRST_PACKET, number, *_to_first_packet(folder)))
    return [start for start in found if start.round >= 0]


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _whole(arguments: tuple[str, ...], folder: str) -> tuple[float, float]:
    """Return the CPU time (s) of a command and its children, and the peak memory (MB) of the largest process."""
    # The parent must be small, because the kernel adds a forked parent's memory to the peak of the new program.
    parent = [sys.executable, "-I", "-S", "-c", STARTS_ONE]
    command = [sys.executable, "-m", "serverdyno", *arguments]
    done = subprocess.run(
        [*parent, *command], cwd=folder, env=_environment(), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise BenchError(f"dyno {' '.join(arguments)} ended with status {done.returncode}: {done.stderr}")
    cpu_s, peak_kb = map(float, done.stdout.splitlines()[-1].split())
    return cpu_s, peak_kb / 1024


def _to_first_packet(folder: str) -> tuple[float, float]:
    """Return CPU time (s, in ticks of 10 ms) and peak memory (MB) of `dyno load` until its first connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(WAIT_S)
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        with subprocess.Popen(
            [sys.executable, "-m", "serverdyno", "load", url],
            cwd=folder,
            env=_environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            try:
                with listening.accept()[0]:
                    times = psutil.Process(process.pid).cpu_times()
                    peak_kb = _peak_kb(process.pid)
            except TimeoutError as error:
                raise BenchError("dyno load sent nothing") from error
            finally:
                process.send_signal(signal.SIGINT)
    return sum(times[:4]), peak_kb / 1024


def _peak_kb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
