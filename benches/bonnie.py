"""Compare `dyno bonnie` with bonnie++ on one directory in memory, in their common phases and with equal chunks.

The directory is in memory, where a sync costs nothing, because bonnie++ syncs its file at each close and Bonnie never
did. bonnie++ makes a system call per character, so its character phases are left out. Seeks are not compared:
bonnie++ uses processes, we use threads.

bonnie++ rounds its own figures, and has none for phases below half a second. So this module times its phases: it reads
wall clock and CPU time when bonnie++ reports the beginning and the end of each.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from benches.file_server import data_directory
from benches.quiet import foreign_share, time_wait_sockets, wait_until_quiet
from benches.ratios import Bound
from benches.rounds import GRACE_S, BenchError, Cpus, Effort, Run, on_cpu, run_tool
from benches.speed import Goal, ReadFigure
from benches.tools import Account, Tool
from serverdyno.probes.noise import machine_cpu

OURS, UNCHECKED, PEER = "dyno bonnie", "dyno bonnie, unchecked", "bonnie++"
BONNIE = (sys.executable, "-m", "serverdyno", "bonnie")
PROGRAM = "bonnie++"
CHUNK_BYTES = 8192
SIZE_MIB = 1024
MIB = 1 << 20
# The messages of bonnie++ 2.00 at the beginning of a phase; "done" follows at its end.
MESSAGES = {
    "write": b"Writing intelligently...",
    "rewrite": b"Rewriting...",
    "read": b"Reading intelligently...",
}
DONE = b"done"
MOST_S = 600.0
FIGURES: dict[str, ReadFigure] = {
    "MB/s": lambda run: run.requests_s * CHUNK_BYTES / 1e6,
    "generator CPU, us/chunk": lambda run: run.generator_cpu_us,
}


@dataclass(frozen=True, slots=True)
class BonnieCase:
    """The benchmark of one phase. The names of its runs begin with `prefix`."""

    phase: str
    prefix: str = "bonnie"
    goal: Goal = field(default=Goal(OURS, (PEER,), "MB/s", Bound(0.95, at_least=True)))
    """The default target: not slower than the peer, with a tolerance for differences between rounds."""

    @property
    def name(self) -> str:
        return f"{self.prefix}-{self.phase}"

    @property
    def title(self) -> str:
        return f"Bonnie's {self.phase}, {SIZE_MIB} MiB in chunks of {CHUNK_BYTES} bytes, on a directory in memory"

    @property
    def figures(self) -> Mapping[str, ReadFigure]:
        return FIGURES

    @property
    def goals(self) -> tuple[Goal, ...]:
        return (self.goal,)


Phases = dict[str, tuple[float, float]]
"""Seconds, and CPU seconds, of each phase."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program to compare. `call` runs all phases once on a CPU, and returns their times and the total CPU seconds."""

    name: str
    call: Callable[[int], tuple[Phases, float]]


CASES = [BonnieCase(phase) for phase in MESSAGES]
ProgramsIn = Callable[[Path, int], list[Program]]
"""Returns the programs to compare in a directory, with a file of the given size in MiB."""


def missing() -> bool:
    return shutil.which(PROGRAM) is None


def beside_peer(folder: Path, size_mib: int) -> list[Program]:
    """Return our program, with and without its check, and bonnie++."""
    return [ours(folder, size_mib), ours(folder, size_mib, check=False), peer(folder, size_mib)]


def carry_out(
    places: Cpus,
    effort: Effort,
    size_mib: int = SIZE_MIB,
    programs_in: ProgramsIn = beside_peer,
    cases: Sequence[BonnieCase] = CASES,
) -> Iterator[Run]:
    """Yield the runs of all programs in alternating order; all phases of a call are runs of the same round.

    Raises BenchError.
    """
    with tempfile.TemporaryDirectory(prefix="serverdyno-bench-", dir=data_directory()) as folder:
        for number in range(effort.rounds):
            programs = programs_in(Path(folder), size_mib)
            for program in programs if number % 2 == 0 else programs[::-1]:
                for run in one_call(program, places, effort, size_mib, cases):
                    yield replace(run, round=number)


def ours(
    folder: Path, size_mib: int, *, check: bool = True, name: str = "", before: Sequence[str] = ()
) -> Program:
    """Return our program with as few seeks as possible. `check`: compare the data read, unlike bonnie++.

    `before`: words in front of the command.
    """
    command = [*BONNIE, "-d", str(folder), "-s", str(size_mib), "--json"]
    command += ["--chunk", str(CHUNK_BYTES), "--seeks", "1", "--seekers", "1"]
    command += [] if check else ["--no-check"]
    name = name or (OURS if check else UNCHECKED)

    def account(text: str) -> Account:
        return Account(1, 1, 1.0, 0, details={"phases": _our_phases(text)})

    def call(cpu: int) -> tuple[Phases, float]:
        # The command writes its experiment into this directory, which is removed afterwards.
        with tempfile.TemporaryDirectory(prefix="serverdyno-bench-") as place:
            there = [*before, "env", "-C", place, *command]
            tool = Tool(name, sys.executable, lambda _url, _seconds: there, account, 1)
            found, process_s = run_tool(tool, "", MOST_S, cpu)
        return found.details["phases"], process_s

    return Program(name, call)


def _our_phases(text: str) -> Phases:
    phases = json.loads(text[text.index("{") :])["phases"]
    return {
        one["phase"]: (one["elapsed_s"], one["user_s"] + one["system_s"])
        for one in phases
        if one["phase"] in MESSAGES
    }


def peer(folder: Path, size_mib: int) -> Program:
    """Return bonnie++ without its phases on single characters and on creating files."""
    sizes = ["-s", f"{size_mib}:{CHUNK_BYTES}", "-n", "0", "-f", "-r", "0"]
    command = [PROGRAM, "-d", str(folder), *sizes, "-u", "root", "-m", "bench"]
    return Program(PEER, lambda cpu: _watched(command, cpu))


def _watched(command: list[str], cpu: int) -> tuple[Phases, float]:
    """Run bonnie++ and return its phases and CPU seconds. Raises BenchError if it fails, hangs, or omits a phase."""
    (said, phases), status, cpu_s = on_cpu(
        command, cpu, MOST_S + GRACE_S, lambda stdout, pid: timed(stdout.fileno(), cpu_clock(pid))
    )
    if status != 0 or set(phases) != set(MESSAGES):
        raise BenchError(f"{PEER} ended with status {status}:\n{said}")
    if short := [phase for phase, (seconds, _) in phases.items() if not seconds]:
        # Its beginning and its end were read at once.
        raise BenchError(f"{PEER}: {', '.join(short)} took too little time to be timed; use a larger file")
    return phases, cpu_s


def cpu_clock(pid: int) -> Callable[[], float]:
    """Return a function that reads the CPU seconds of a process with all its threads (clock_getcpuclockid(3))."""
    clock = (~pid << 3) | 2
    return lambda: time.clock_gettime(clock)


def timed(said_to: int, cpu_s: Callable[[], float]) -> tuple[str, Phases]:
    """Read the output of bonnie++ to its end, and time the phases that it reports.

    `said_to` is the output's file descriptor, and `cpu_s` reads bonnie++'s CPU time. Returns the output and the
    finished phases.
    """
    text = b""
    begun: dict[str, tuple[float, float]] = {}
    found: Phases = {}
    while piece := os.read(said_to, 4096):
        text += piece
        try:
            now_s, used_s = time.monotonic(), cpu_s()
        except OSError:  # the process has ended
            continue
        for phase, message in MESSAGES.items():
            if message in text:
                began_s, before_s = begun.setdefault(phase, (now_s, used_s))
                if message + DONE in text and phase not in found:
                    found[phase] = (now_s - began_s, used_s - before_s)
    return text.decode(errors="replace"), found


def one_call(
    program: Program, places: Cpus, effort: Effort, size_mib: int, cases: Sequence[BonnieCase] = CASES
) -> list[Run]:
    """Run a program once, even if other programs disturb it, and return a run per phase. Raises BenchError."""
    quiet, waiting = wait_until_quiet(effort.patience_s), time_wait_sockets()
    started, own, machine = datetime.now(UTC), time.process_time(), machine_cpu()
    phases, process_s = program.call(places.generator)
    others = foreign_share(machine, machine_cpu(), process_s + time.process_time() - own)
    chunks = size_mib * MIB // CHUNK_BYTES
    return [
        Run(
            case=case.name,
            tool=program.name,
            started_utc=f"{started:%Y-%m-%dT%H:%M:%S}Z",
            connections=1,
            requests=chunks,
            requests_s=chunks / seconds,
            errors=0,
            generator_cpu_s=cpu_s,
            measured_s=seconds,
            foreign_cpu_share=others,
            quiet_before=quiet,
            time_wait_before=waiting,
        )
        for case in cases
        for seconds, cpu_s in [phases[case.phase]]
    ]
