"""`dyno bonnie` next to bonnie++ on one directory in memory: the phases that both have, with the same chunk.

In memory because bonnie++ syncs its file at each close and Bonnie never did: a sync costs nothing there. Characters are
left out of bonnie++, which makes a system call for each. Not for seeks: theirs are processes, ours threads.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from benches.file_server import data_directory
from benches.quiet import foreign_share, time_wait_sockets, wait_until_quiet
from benches.ratios import Bound
from benches.rounds import BenchError, Cpus, Effort, Run, run_tool
from benches.speed import Goal, ReadFigure
from benches.tools import Account, Tool
from serverdyno.probes.noise import machine_cpu

OURS, PEER = "dyno bonnie", "bonnie++"
PROGRAM = "bonnie++"
CHUNK_BYTES = 8192
SIZE_MIB = 2048  # bonnie++ gives no figure of a phase of less than half a second
MIB, KIB = 1 << 20, 1 << 10
# Where a phase stands in the line of values that bonnie++ 2.00 prints: K/sec, then the share of a CPU in percent.
COLUMNS = {"write": 11, "rewrite": 13, "read": 17}
MOST_S = 600.0
FIGURES: dict[str, ReadFigure] = {
    "MB/s": lambda run: run.requests_s * CHUNK_BYTES / 1e6,
    "generator CPU, us/chunk": lambda run: run.generator_cpu_us,
}


@dataclass(frozen=True, slots=True)
class BonnieCase:
    """One phase."""

    phase: str

    @property
    def name(self) -> str:
        """Of its runs."""
        return f"bonnie-{self.phase}"

    @property
    def title(self) -> str:
        """Of its table."""
        return f"Bonnie's {self.phase}, {SIZE_MIB} MiB in chunks of {CHUNK_BYTES} bytes, on a directory in memory"

    @property
    def figures(self) -> Mapping[str, ReadFigure]:
        """What is told of each tool."""
        return FIGURES

    @property
    def goals(self) -> tuple[Goal, ...]:
        """No slower than the peer, but for what a round differs from the next."""
        return (Goal(OURS, (PEER,), "MB/s", Bound(0.95, at_least=True)),)


CASES = [BonnieCase(phase) for phase in COLUMNS]


def missing() -> bool:
    """Return whether the peer is absent."""
    return shutil.which(PROGRAM) is None


def carry_out(places: Cpus, effort: Effort, size_mib: int = SIZE_MIB) -> Iterator[Run]:
    """Both in turn, in an order that turns round; all phases of a call are runs of a round. Raises BenchError."""
    with tempfile.TemporaryDirectory(prefix="serverdyno-bench-", dir=data_directory()) as folder:
        for number in range(effort.rounds):
            tools = [ours(Path(folder), size_mib), peer(Path(folder), size_mib)]
            for tool in tools if number % 2 == 0 else tools[::-1]:
                for run in one_call(tool, places, effort, size_mib):
                    yield replace(run, round=number)


def ours(folder: Path, size_mib: int) -> Tool:
    """Return our program, with as few seeks as it takes."""
    command = [sys.executable, "-m", "serverdyno", "bonnie", "-d", str(folder), "-s", str(size_mib), "--json"]
    command += ["--chunk", str(CHUNK_BYTES), "--seeks", "1", "--seekers", "1"]
    return Tool(
        OURS, sys.executable, lambda _url, _seconds: command, lambda text: _account(_our_phases(text)), 1
    )


def peer(folder: Path, size_mib: int) -> Tool:
    """Return bonnie++ without characters and files."""
    command = [
        PROGRAM,
        "-d",
        str(folder),
        "-s",
        f"{size_mib}:{CHUNK_BYTES}",
        "-n",
        "0",
        "-f",
        "-r",
        "0",
        "-q",
    ]
    command += ["-u", "root", "-m", "bench"]
    return Tool(PEER, PROGRAM, lambda _url, _seconds: command, lambda text: _account(peer_phases(text)), 1)


def _our_phases(text: str) -> dict[str, tuple[float, float]]:
    """Seconds, and CPU seconds, of each phase."""
    phases = json.loads(text[text.index("{") :])["phases"]
    return {
        one["phase"]: (one["elapsed_s"], one["user_s"] + one["system_s"])
        for one in phases
        if one["phase"] in COLUMNS
    }


def peer_phases(text: str) -> dict[str, tuple[float, float]]:
    """Seconds, and CPU seconds, by the last line that bonnie++ prints. Raises BenchError where it has no figure."""
    values = text.strip().splitlines()[-1].split(",") if text.strip() else []
    try:
        size_mib = int(values[5].removesuffix("M"))
        found = {name: (float(values[at]), float(values[at + 1])) for name, at in COLUMNS.items()}
    except (IndexError, ValueError) as error:
        raise BenchError(f"{PEER} gives no figures (a larger file has some):\n{text}") from error
    seconds = {name: size_mib * KIB / rate for name, (rate, _) in found.items()}
    return {name: (seconds[name], seconds[name] * percent / 100) for name, (_, percent) in found.items()}


def _account(phases: Mapping[str, tuple[float, float]]) -> Account:
    return Account(1, 1, 1.0, 0, details={"phases": phases})


def one_call(tool: Tool, places: Cpus, effort: Effort, size_mib: int) -> list[Run]:
    """One call, whatever others did meanwhile: a run of each phase. Raises BenchError."""
    quiet, waiting = wait_until_quiet(effort.patience_s), time_wait_sockets()
    started, own, machine = datetime.now(UTC), time.process_time(), machine_cpu()
    account, process_s = run_tool(tool, "", MOST_S, places.generator)
    others = foreign_share(machine, machine_cpu(), process_s + time.process_time() - own)
    chunks = size_mib * MIB // CHUNK_BYTES
    return [
        Run(
            case=BonnieCase(phase).name,
            tool=tool.name,
            round=0,
            attempt=0,
            kept=True,
            started_utc=f"{started:%Y-%m-%dT%H:%M:%S}Z",
            connections=1,
            requests=chunks,
            requests_s=chunks / seconds,
            errors=0,
            server_requests=None,
            generator_cpu_s=cpu_s,
            server_cpu_s=None,
            measured_s=seconds,
            foreign_cpu_share=others,
            quiet_before=quiet,
            time_wait_before=waiting,
            details={},
        )
        for phase, (seconds, cpu_s) in account.details["phases"].items()
    ]
