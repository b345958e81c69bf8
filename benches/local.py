"""Work on a local directory in memory: streams against fio, metadata against a plain C loop, one client on one CPU.

As a program it is our side of one run: `python -m benches.local DIRECTORY OPTIONS` prints what it did as JSON. Not for
servers.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from benches.file_server import data_directory
from benches.ratios import Bound
from benches.rounds import BenchError, Cpus, Effort, Run, best_of, measured
from benches.speed import Goal, ReadFigure
from benches.tools import Account, Tool
from serverdyno import _native

OURS, COMPARING, PSYNC, LIBAIO, LOOP = "dyno", "dyno, comparing", "fio psync", "fio libaio", "C loop"
SOURCE = Path(__file__).with_name("metadata_loop.c")
FILE_BYTES = 64 << 20
RAMP_S = 0.2
HALF_A_LOOP = 0.5
"""Of a loop that times nothing, checks nothing and looks its names up in its own directory. Our choice."""
OPERATIONS: dict[str, ReadFigure] = {
    "operations/s": lambda run: run.requests_s,
    "operations/CPU-second": lambda run: run.requests / run.generator_cpu_s,
    "generator CPU, us/operation": lambda run: run.generator_cpu_us,
}


@dataclass(frozen=True, slots=True)
class LocalCase:
    """One kind of work. `options`: of our mix on files; `peers`: the command of each, and how its output is read."""

    name: str
    title: str
    options: Mapping[str, Any]
    peers: Mapping[str, Callable[[Path, float], list[str]]]
    read: Callable[[str], Account]
    least: float

    @property
    def figures(self) -> Mapping[str, ReadFigure]:
        """What is told of each tool."""
        return OPERATIONS

    @property
    def goals(self) -> tuple[Goal, ...]:
        """A share of what the best peer does, in a second and in a second of CPU time."""
        bound = Bound(self.least, at_least=True)
        return tuple(Goal(OURS, tuple(self.peers), figure, bound) for figure in [*OPERATIONS][:2])


def _streams(name: str, title: str, way: str, block_bytes: int, *, random: bool) -> LocalCase:
    options = {
        "workload": "streams",
        "file_bytes": FILE_BYTES,
        "block_bytes": block_bytes,
        "random": random,
        "writers_percent": 100 if way == "write" else 0,
    }

    def fio(engine: str) -> Callable[[Path, float], list[str]]:
        def command(folder: Path, seconds: float) -> list[str]:
            words = ["fio", "--name=stream", f"--directory={folder}", f"--rw={'rand' if random else ''}{way}"]
            words += [f"--bs={block_bytes}", f"--size={FILE_BYTES}", f"--ioengine={engine}", "--iodepth=1"]
            words += [f"--runtime={seconds}", "--time_based", "--thread", "--output-format=json"]
            # Ours flushes after each pass through its file.
            return words + ([f"--fsync={FILE_BYTES // block_bytes}"] if way == "write" else [])

        return command

    peers = {PSYNC: fio("psync"), LIBAIO: fio("libaio")}
    return LocalCase(name, title, options, peers, lambda text: fio_account(text, way), 0.95)


def fio_account(text: str, way: str) -> Account:
    """What fio says of its one job. Raises BenchError where it says nothing."""
    try:
        [job] = json.loads(text[text.index("{") :])["jobs"]
        seconds = job["job_runtime"] / 1000
        cpu_s = seconds * (job["usr_cpu"] + job["sys_cpu"]) / 100
        return Account(job[way]["total_ios"], job[way]["total_ios"], seconds, job["error"], cpu_s=cpu_s)
    except (ValueError, KeyError) as error:
        raise BenchError(f"fio gives no figures:\n{text}") from error


def _metadata(file_bytes: int, files: int = 200) -> LocalCase:
    options = {"workload": "metadata", "files": files, "file_bytes": file_bytes}

    def loop(folder: Path, seconds: float) -> list[str]:
        return [f"{folder / 'loop'}", f"{folder}", f"{files}", f"{file_bytes}", f"{seconds}"]

    return LocalCase(
        f"local-metadata-{file_bytes}",
        f"Create, stat, read and remove {files} files of {file_bytes:,} bytes, on a directory in memory",
        options,
        {LOOP: loop},
        loop_account,
        HALF_A_LOOP,
    )


def loop_account(text: str) -> Account:
    """What the C loop prints. Raises BenchError where it is something else."""
    try:
        operations, seconds, cpu_s = text.split()
        return Account(int(operations), int(operations), float(seconds), 0, cpu_s=float(cpu_s))
    except ValueError as error:
        raise BenchError(f"the C loop failed:\n{text}") from error


WHERE = "of a file of 64 MiB on a directory in memory"
CASES = [
    _streams("local-read", f"Reading 64 KiB at a time {WHERE}", "read", 65536, random=False),
    _streams("local-write", f"Writing 64 KiB at a time {WHERE}", "write", 65536, random=False),
    _streams("local-random-read", f"Reading 4 KiB at random {WHERE}", "read", 4096, random=True),
    _metadata(0),
    _metadata(3901),
]


def missing() -> list[str]:
    """Return what is not installed."""
    return [name for name in ("fio", "gcc") if shutil.which(name) is None]


def carry_out(case: LocalCase, places: Cpus, effort: Effort) -> Iterator[Run]:
    """Run all sides in turn, in an order that turns round. Raises BenchError."""
    with tempfile.TemporaryDirectory(prefix="serverdyno-bench-", dir=data_directory()) as name:
        folder = Path(name)
        if LOOP in case.peers:
            subprocess.run(["gcc", "-O2", "-o", folder / "loop", SOURCE], check=True)
        sides = [*_ours(case, folder), *(_peer(case, peer, folder) for peer in case.peers)]

        def once(side: Tool) -> Run:
            return measured(case.name, side, places, effort)

        for number in range(effort.rounds):
            for side in sides if number % 2 == 0 else sides[::-1]:
                for run in best_of(effort.attempts, partial(once, side)):
                    yield replace(run, round=number)


def _ours(case: LocalCase, folder: Path) -> list[Tool]:
    """The same as the peers do; of streams that read, also with every byte compared."""
    reads = case.options.get("writers_percent") == 0

    def tool(name: str, verify_share: float) -> Tool:
        def command(_url: str, seconds: float) -> list[str]:
            asked = {"files": dict(case.options), "seconds": seconds, "verify_share": verify_share}
            return [sys.executable, "-m", "benches.local", f"{folder}", json.dumps(asked)]

        return Tool(name, sys.executable, command, _our_account, 1)

    return [tool(OURS, 0.0), *([tool(COMPARING, 1.0)] if reads else [])]


def _our_account(text: str) -> Account:
    found = json.loads(text.strip().splitlines()[-1])
    count = found["operations"]
    return Account(count, count, found["window_s"], found["errors"], cpu_s=found["cpu_s"])


def _peer(case: LocalCase, name: str, folder: Path) -> Tool:
    make = case.peers[name]
    return Tool(name, name, lambda _url, seconds: make(folder, seconds), case.read, 1)


def main() -> None:
    """Our side of one run."""
    from benches.files_generator import told  # noqa: PLC0415
    from benches.mixes import files_mix  # noqa: PLC0415

    directory, asked = sys.argv[1], json.loads(sys.argv[2])
    target = _native.Target.open("posix", json.dumps({"url": f"file://{directory}"}))
    files = {**asked["files"], "cache": "none", "keep_workspace": False}
    length_s = asked["seconds"] + RAMP_S
    shape = {"clients": 1, "threads": 1, "length_s": length_s, "ramp_up_s": RAMP_S, "timeout_s": 30.0}
    load = files_mix(target, files, None, verify_share=asked["verify_share"], **shape).start()
    if not load.wait(length_s + 60):
        raise SystemExit("the mix does not end")
    found = told(load.result())
    if found["first_error"]:
        raise SystemExit(found["first_error"])
    print(
        json.dumps(
            {
                "operations": found["operations_in_window"],
                "window_s": found["window_s"],
                "cpu_s": found["cpu_in_window_s"],
                "errors": found["errors"],
            }
        )
    )


if __name__ == "__main__":
    main()
