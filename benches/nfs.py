"""The claims about NFS: a large file copied there and back, and a large directory listed, against libnfs's tools.

One private Ganesha for all tools of a comparison, in interleaved rounds. Ours streams in a window; libnfs's tools copy
or list once a run, from their start to their end, and the CPU time of a call that does next to nothing is taken off.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from benches import load_files
from benches.file_runs import FileStand, measure
from benches.file_server import BenchServer, running_ganesha
from benches.file_tools import dyno
from benches.files import STREAM_FIGURES, FileCase, Once
from benches.quiet import foreign_share, time_wait_sockets, wait_until_quiet
from benches.ratios import Bound
from benches.rounds import BenchError, Cpus, Run, best_of, run_tool
from benches.speed import Goal, ReadFigure
from benches.tools import Account, Tool
from serverdyno.probes.noise import machine_cpu
from serverdyno.servers.ganesha import MOUNT_PORT, NFS_PORT
from serverdyno.servers.local import find_program

COPY_BYTES = 480 << 20
FILES = 60_000
OURS, COPY, LIST = "dyno", "nfs-cp", "nfs-ls"
MOST_S = 300.0
LISTED = "listed"
LISTING_FIGURES: dict[str, ReadFigure] = {
    "entries/s": lambda run: run.requests_s,
    "client CPU, us/entry": lambda run: run.generator_cpu_us,
    "server CPU, us/entry": lambda run: run.server_cpu_us,
}
_numbers = count()


@dataclass(frozen=True, slots=True)
class Sizes:
    """What is big about the comparisons; tests have small ones."""

    copy_bytes: int = COPY_BYTES
    files: int = FILES


@dataclass(frozen=True, slots=True)
class NfsCase(FileCase):
    """On Ganesha."""

    @contextmanager
    def running(self, places: Cpus) -> Iterator[BenchServer]:
        """One that is ready."""
        with running_ganesha([places.server]) as server:
            yield server


def missing() -> list[str]:
    """What has to be installed before any of this can be done."""
    programs = ("ganesha.nfsd", "rpcbind", COPY, LIST, "nsenter", "bash")
    return [name for name in programs if find_program(name) is None]


def cases(folder: Path, sizes: Sizes) -> list[FileCase]:
    """In the order in which they are run. `folder` gets what they need beside a server."""
    return [*(_copy(folder, sizes, way) for way in load_files.STREAM_WAYS), _listing(folder, sizes)]


def _copy(folder: Path, sizes: Sizes, way: str) -> FileCase:
    def ours(stand: FileStand) -> list[Run]:
        path = load_files.stream(folder / f"{way}.load", way, sizes.copy_bytes)
        return [_in_pieces(run) for run in measure(stand, dyno(OURS, path, "leases"))]

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


def _in_pieces(run: Run) -> Run:
    """With 64 KiB as the operation. The few others, an open, a query and a close a pass, cost too."""
    moved = run.details["bytes_in_window"]
    assert isinstance(moved, int | float)
    pieces = round(moved / load_files.PIECE_BYTES)
    return replace(run, requests=pieces, requests_s=pieces / run.measured_s)


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


def _make_files(server: BenchServer, files: int) -> None:
    """Behind the server's back, before it has looked there for the first time."""
    [volume] = server.data_directories()
    directory = volume / LISTED
    if directory.exists():
        return
    directory.mkdir(mode=0o777)
    for number in range(files):
        (directory / f"file{number}").touch()


def _copied(stand: FileStand, way: str, local: Path, back: Path) -> Run:
    """One copy there, or back. Raises BenchError."""
    # Ganesha goes on with what it remembers of a name that was removed behind its back.
    there = f"copy{next(_numbers)}"
    put = [COPY, str(local), _url(there)]
    if way == "read":
        _called(stand, put)
    small = back.with_name("small")
    small.write_bytes(b"a")
    idle = [COPY, str(small), _url(f"{there}-small")]
    command = put if way == "write" else [COPY, _url(there), str(back)]
    run = _timed(stand, command, idle, local.stat().st_size // load_files.PIECE_BYTES)
    if way == "read" and back.stat().st_size != local.stat().st_size:
        raise BenchError(f"{COPY} brought {back.stat().st_size} bytes of {local.stat().st_size}")
    for name in (there, f"{there}-small"):
        (stand.server.data_directories()[0] / name).unlink()
    bytes_moved = run.requests * load_files.PIECE_BYTES
    return replace(run, details={"bytes_in_window": bytes_moved})


def _listed(stand: FileStand, files: int) -> Run:
    """One listing. Raises BenchError."""
    return _timed(stand, [LIST, _url(LISTED)], [LIST, _url("")], files)


def _url(path: str) -> str:
    return f"nfs://127.0.0.1/volume1/{path}?nfsport={NFS_PORT}&mountport={MOUNT_PORT}"


def _called(stand: FileStand, command: list[str]) -> tuple[float, float]:
    """Seconds from its start to its end, and CPU seconds. Raises BenchError."""
    namespace = stand.server.access().network_namespace
    timed = ["bash", "-c", 'TIMEFORMAT=%R; time "$@" >/dev/null', "bash", *command]
    words = [f"--net={namespace}", *timed]

    def account(output: str) -> Account:
        lines = output.split()
        try:
            return Account(1, 1, float(lines[-1]), 0)
        except (IndexError, ValueError):
            raise BenchError(f"{command[0]} failed:\n{output}") from None

    tool = Tool(command[0], command[0], lambda _url, _seconds: ["nsenter", *words], account, 1)
    told, cpu_s = run_tool(tool, "", MOST_S, stand.places.generator)
    return told.window_s, cpu_s


def _timed(stand: FileStand, command: list[str], idle: list[str], units: int) -> Run:
    quiet, waiting = wait_until_quiet(stand.effort.patience_s), time_wait_sockets()
    started = datetime.now(UTC)
    _, idle_s = _called(stand, idle)
    own, before, machine = time.process_time(), stand.server.cpu_s(), machine_cpu()
    elapsed_s, process_s = _called(stand, command)
    after_machine, after = machine_cpu(), stand.server.cpu_s()
    server_s = None if before is None or after is None else after - before
    others = foreign_share(machine, after_machine, process_s + (server_s or 0.0) + time.process_time() - own)
    return Run(
        case=stand.case,
        tool=command[0],
        round=0,
        attempt=0,
        kept=True,
        started_utc=f"{started:%Y-%m-%dT%H:%M:%S}Z",
        connections=1,
        requests=units,
        requests_s=units / elapsed_s,
        errors=0,
        server_requests=None,
        generator_cpu_s=process_s - idle_s,
        server_cpu_s=server_s,
        measured_s=elapsed_s,
        foreign_cpu_share=others,
        quiet_before=quiet,
        time_wait_before=waiting,
        details={},
    )
