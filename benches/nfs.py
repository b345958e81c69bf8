"""The benchmarks of NFS: copies, listings and random reads against libnfs, and many clients in one process.

All tools of a benchmark use one private Ganesha, in interleaved rounds. Our client streams during a window. libnfs's
tools copy a large file or list a large directory once per run, and the whole process is timed; the CPU time of a nearly
empty call is subtracted. Our own C program does the random reads with libnfs.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from benches import files as smb
from benches import load_files
from benches.file_runs import FileStand, measure
from benches.file_server import BenchServer, running_ganesha
from benches.file_tools import dyno
from benches.file_tools import ours as our_tool
from benches.files import STREAM_FIGURES, FileCase, Once
from benches.quiet import wait_until_quiet
from benches.ratios import Bound
from benches.rounds import BenchError, Cpus, Run, best_of, measured, run_tool
from benches.speed import Goal, ReadFigure
from benches.tools import Account, Tool
from serverdyno.servers.ganesha import MOUNT_PORT, NFS_PORT
from serverdyno.servers.local import find_program

COPY_BYTES = 480 << 20
FILES = 60_000
BLOCK_BYTES, DEPTH = 4096, 32
SESSIONS = (1_000,)
OURS, COPY, LIST = "dyno", "nfs-cp", "nfs-ls"
COMPARING, READS, READS_AT_ONCE = "dyno, comparing", "libnfs", "libnfs, TCP_NODELAY"
SOURCE = Path(__file__).with_name("random_reads.c")
LIBNFS_HEADER = Path("/usr/include/nfsc/libnfs.h")
MOST_S = 300.0
LISTED = "listed"
READ_FIGURES: dict[str, ReadFigure] = {
    "operations/s": lambda run: run.requests_s,
    "operations/CPU-second": lambda run: run.requests / run.generator_cpu_s,
    "generator CPU, us/operation": lambda run: run.generator_cpu_us,
}
LISTING_FIGURES: dict[str, ReadFigure] = {
    "entries/s": lambda run: run.requests_s,
    "client CPU, us/entry": lambda run: run.generator_cpu_us,
    "server CPU, us/entry": lambda run: run.server_cpu_us,
}
_numbers = count()


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of the benchmarks; tests use small ones."""

    copy_bytes: int = COPY_BYTES
    files: int = FILES
    sessions: tuple[int, ...] = SESSIONS


@dataclass(frozen=True, slots=True)
class NfsCase(FileCase):
    @contextmanager
    def running(self, places: Cpus) -> Iterator[BenchServer]:
        with running_ganesha([places.server]) as server:
            yield server


def missing() -> list[str]:
    programs = ("ganesha.nfsd", "rpcbind", COPY, LIST, "nsenter", "bash", "gcc")
    absent = [name for name in programs if find_program(name) is None]
    return absent if LIBNFS_HEADER.exists() else [*absent, f"{LIBNFS_HEADER} (libnfs-dev)"]


def cases(folder: Path, sizes: Sizes) -> list[FileCase]:
    """Return the benchmarks in order. Their input files are written into `folder`."""
    return [
        *(_copy(folder, sizes, way) for way in load_files.STREAM_WAYS),
        _listing(folder, sizes),
        _random_reads(folder, sizes),
        smb.idle(folder, sizes.sessions, NfsCase, "nfs-idle"),
        smb.working(folder, sizes.sessions, NfsCase, "nfs-sessions"),
    ]


def _copy(folder: Path, sizes: Sizes, way: str) -> FileCase:
    def ours(stand: FileStand) -> list[Run]:
        path = load_files.stream(folder / f"{way}.load", way, sizes.copy_bytes)
        return [smb.in_pieces(run) for run in measure(stand, dyno(OURS, path, "leases"))]

    def theirs(stand: FileStand) -> list[Run]:
        local = folder / "local"
        if not local.exists():
            local.write_bytes(os.urandom(sizes.copy_bytes))
        return best_of(stand.effort.attempts, lambda: _copied(stand, way, local, folder / "back"))

    what = "written and committed" if way == "write" else "read"
    return NfsCase(
        f"nfs-{way}",
        f"NFSv3: a file of {sizes.copy_bytes >> 20} MiB {what}",
        STREAM_FIGURES,
        {OURS: ours, COPY: theirs},
        (
            Goal(OURS, (COPY,), "MB/s", Bound(1.0)),
            Goal(OURS, (COPY,), "client CPU, us/64 KiB", Bound(1.0, at_least=False)),
        ),
    )


def _listing(folder: Path, sizes: Sizes) -> FileCase:
    def ours(stand: FileStand) -> list[Run]:
        path = load_files.listing(folder / "listing.load", sizes.files)
        runs = measure(stand, dyno(OURS, path, "none"))
        return [
            replace(run, requests=run.requests * sizes.files, requests_s=run.requests_s * sizes.files)
            for run in runs
        ]

    def theirs(stand: FileStand) -> list[Run]:
        _make_files(stand.server, sizes.files)
        return best_of(stand.effort.attempts, lambda: _listed(stand, sizes.files))

    tools: Mapping[str, Once] = {OURS: ours, LIST: theirs}
    return NfsCase(
        "nfs-list",
        f"NFSv3: a directory of {sizes.files:,} files listed with attributes",
        LISTING_FIGURES,
        tools,
        (
            Goal(OURS, (LIST,), "entries/s", Bound(3.0)),
            Goal(OURS, (LIST,), "client CPU, us/entry", Bound(0.15, at_least=False)),
        ),
        most_rounds=3,
    )


def _random_reads(folder: Path, sizes: Sizes) -> FileCase:
    streams = {"workload": "streams", "cache": "none", "random": True, "writers_percent": 0}
    streams |= {"file_bytes": sizes.copy_bytes, "block_bytes": BLOCK_BYTES}

    def ours(name: str, verify_share: float) -> Once:
        tool = our_tool(name, streams, 1, threads=DEPTH, verify_share=verify_share)
        return lambda stand: measure(stand, tool)

    def theirs(name: str, at_once: bool) -> Once:
        def once(stand: FileStand) -> list[Run]:
            program, [volume] = folder / "random_reads", stand.server.data_directories()
            if not program.exists():
                subprocess.run(["gcc", "-O2", "-o", program, SOURCE, "-lnfs"], check=True)
            blocks = volume / "blocks"
            if not blocks.exists():
                blocks.write_bytes(os.urandom(sizes.copy_bytes))
            how = [BLOCK_BYTES, DEPTH, stand.effort.seconds, int(at_once)]
            command = [f"{program}", _url("blocks"), *map(str, how)]
            return best_of(stand.effort.attempts, lambda: _read(stand, name, command))

        return once

    return NfsCase(
        "nfs-random-read",
        f"NFSv3: {BLOCK_BYTES >> 10} KiB read at random, {DEPTH} at once, of a file of {sizes.copy_bytes >> 20} MiB",
        READ_FIGURES,
        {
            OURS: ours(OURS, 0.0),
            COMPARING: ours(COMPARING, 1.0),
            READS: theirs(READS, at_once=False),
            READS_AT_ONCE: theirs(READS_AT_ONCE, at_once=True),
        },
        (Goal(OURS, (READS,), "operations/CPU-second", Bound(1.3)),),
    )


def _read(stand: FileStand, name: str, command: list[str]) -> Run:
    """Run the program of random reads once. Raises BenchError."""

    def account(output: str) -> Account:
        try:
            reads, seconds, cpu_s = output.split()
            return Account(int(reads), int(reads), float(seconds), 0, cpu_s=float(cpu_s))
        except ValueError as error:
            raise BenchError(f"{name} failed:\n{output}") from error

    tool = _in_namespace(stand, name, command, account)
    return measured(stand.case, tool, stand.places, replace(stand.effort, seconds=MOST_S), stand.server)


def _make_files(server: BenchServer, files: int) -> None:
    """Create the files directly on the disk, before the server reads the directory for the first time."""
    [volume] = server.data_directories()
    directory = volume / LISTED
    if directory.exists():
        return
    directory.mkdir(mode=0o777)
    for number in range(files):
        (directory / f"file{number}").touch()


def _copied(stand: FileStand, way: str, local: Path, back: Path) -> Run:
    """Copy a file to the server or back once. Raises BenchError."""
    # Each copy has a new name, because Ganesha caches names that were removed directly on the disk.
    there = f"copy{next(_numbers)}"
    put = [COPY, str(local), _url(there)]
    if way == "read":
        run_tool(_program(stand, put), "", MOST_S, stand.places.generator)
    small = back.with_name("small")
    small.write_bytes(b"a")
    idle = [COPY, str(small), _url(f"{there}-small")]
    command = put if way == "write" else [COPY, _url(there), str(back)]
    run = _timed(stand, command, idle, local.stat().st_size // load_files.PIECE_BYTES)
    if way == "read" and back.stat().st_size != local.stat().st_size:
        raise BenchError(f"{COPY} brought {back.stat().st_size} bytes of {local.stat().st_size}")
    # nfs-cp does not overwrite files, and a disturbed copy is repeated.
    back.unlink(missing_ok=True)
    for name in (there, f"{there}-small"):
        (stand.server.data_directories()[0] / name).unlink()
    bytes_moved = run.requests * load_files.PIECE_BYTES
    return replace(run, details={"bytes_in_window": bytes_moved})


def _listed(stand: FileStand, files: int) -> Run:
    """List a directory once, after the server has cached it, as in our repeated listings.

    Raises BenchError.
    """
    command = [LIST, _url(LISTED)]
    run_tool(_program(stand, command), "", MOST_S, stand.places.generator)
    return _timed(stand, command, [LIST, _url("")], files)


def _url(path: str) -> str:
    return f"nfs://127.0.0.1/volume1/{path}?nfsport={NFS_PORT}&mountport={MOUNT_PORT}"


def _in_namespace(stand: FileStand, name: str, command: list[str], account: Callable[[str], Account]) -> Tool:
    """Return a program that runs in the server's network namespace."""
    words = ["nsenter", f"--net={stand.server.access().network_namespace}", *command]
    return Tool(name, name, lambda _url, _seconds: words, account, 1)


def _program(stand: FileStand, command: list[str], units: int = 1) -> Tool:
    """Return one of libnfs's programs, timed from start to end. `units` is the number of its operations."""

    def account(output: str) -> Account:
        lines = output.split()
        try:
            return Account(units, units, float(lines[-1]), 0)
        except (IndexError, ValueError):
            raise BenchError(f"{command[0]} failed:\n{output}") from None

    timed = ["bash", "-c", 'TIMEFORMAT=%R; time "$@" >/dev/null', "bash", *command]
    return _in_namespace(stand, command[0], timed, account)


def _timed(stand: FileStand, command: list[str], idle: list[str], units: int) -> Run:
    """Run a command once, with the CPU time of `idle`, a nearly empty call, subtracted. Raises BenchError."""
    wait_until_quiet(stand.effort.patience_s)
    _, idle_s = run_tool(_program(stand, idle), "", MOST_S, stand.places.generator)
    tool = _program(stand, command, units)
    run = measured(stand.case, tool, stand.places, replace(stand.effort, seconds=MOST_S), stand.server)
    return replace(run, generator_cpu_s=run.generator_cpu_s - idle_s)
