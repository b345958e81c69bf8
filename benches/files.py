"""The benchmarks of file servers: replay of a load file against smbtorture, streams against smbclient, many sessions.

All tools of a benchmark use one private Samba, in interleaved rounds. `cases` lists the benchmarks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from benches import file_streams, load_files
from benches.file_runs import FileStand, measure, one_run
from benches.file_server import BenchServer, running_samba
from benches.file_tools import FileTool, dyno, smbtorture
from benches.ratios import Bound
from benches.rounds import Cpus, Effort, Run, best_of
from benches.speed import Goal, ReadFigure
from serverdyno.servers.local import find_program

REPLAY_CLIENTS = (1, 4, 16)
STREAM_BYTES = 256 << 20
STREAM_LIMITS = (65536, None)
SESSIONS = (10, 100, 1_000)
SESSION_ROUNDS, COUNT_ROUNDS = 3, 2
# The think time and the length of a level with idle sessions. Both are far longer than a measurement. The level is the
# longer one, because a client leaves at once if its think time would end after the level.
IDLE_S, IDLE_LEVEL_S = 600.0, 1800.0
OURS, CACHED, UNCHECKED = "dyno", "dyno, with leases", "dyno, with leases, reads not checked"
TORTURE = "smbtorture"
COUNT_CLIENTS = 2
# Requests that smbd counts by name, and that no client sends before or after a level.
NAMES = {"READ": "read", "FLUSH": "flush"}
COUNT_PREFIX, SESSION_CASE = "count-samba", "files-sessions"


def _told(run: Run, name: str) -> float:
    value = run.details[name]
    assert isinstance(value, int | float)
    return value


REPLAY_FIGURES: dict[str, ReadFigure] = {
    "operations/s": lambda run: run.requests_s,
    "MB/s": lambda run: _told(run, "bytes_in_window") / run.measured_s / 1e6,
    "client CPU, us/operation": lambda run: run.generator_cpu_us,
    "server CPU, us/operation": lambda run: run.server_cpu_us,
}
STREAM_FIGURES: dict[str, ReadFigure] = {
    "MB/s": lambda run: run.requests_s * load_files.PIECE_BYTES / 1e6,
    "client CPU, us/64 KiB": lambda run: run.generator_cpu_us,
    "server CPU, us/64 KiB": lambda run: run.server_cpu_us,
}
MESSAGE_FIGURES: dict[str, ReadFigure] = {
    "SMB requests/operation": lambda run: _told(run, "messages") / _told(run, "operations")
}
IDLE_FIGURES: dict[str, ReadFigure] = {
    "client memory, bytes/session": lambda run: _told(run, "rss_growth_bytes") / run.connections,
    "server memory, bytes/session": lambda run: _told(run, "server_rss_growth_bytes") / run.connections,
}
WORKING_FIGURES: dict[str, ReadFigure] = {
    "operations/s": lambda run: run.requests_s,
    "client CPU, us/operation": lambda run: run.generator_cpu_us,
    "client CPU, share of one": lambda run: run.generator_cpu_s / run.measured_s,
    "server CPU, us/operation": lambda run: run.server_cpu_us,
}


Once = Callable[[FileStand], list[Run]]  # returns all attempts of one tool in one round


@dataclass(frozen=True, slots=True)
class FileCase:
    """A benchmark of several tools on one server.

    `own_server`: each run has its own server, because processes often keep freed memory. `most_rounds`: upper bound on
    the number of rounds.
    """

    name: str
    title: str
    figures: Mapping[str, ReadFigure]
    tools: Mapping[str, Once]
    goals: tuple[Goal, ...] = ()
    most_bytes: int | None = None  # per SMB2 request
    most_rounds: int | None = None
    own_server: bool = False

    def carry_out(self, places: Cpus, effort: Effort) -> list[Run]:
        """Run all rounds, in the order A B C, then C B A. Raises DynoError."""
        turns = [
            (number, once)
            for number in range(min(effort.rounds, self.most_rounds or effort.rounds))
            for once in list(self.tools.values())[:: 1 if number % 2 == 0 else -1]
        ]
        if not self.own_server:
            return self._take_turns(turns, places, effort)
        return [run for turn in turns for run in self._take_turns([turn], places, effort)]

    @contextmanager
    def running(self, places: Cpus) -> Iterator[BenchServer]:
        with running_samba([places.server], self.most_bytes) as server:
            yield server

    def _take_turns(self, turns: Sequence[tuple[int, Once]], places: Cpus, effort: Effort) -> list[Run]:
        with self.running(places) as server:
            stand = FileStand(self.name, server, places, effort)
            return [replace(run, round=number) for number, once in turns for run in once(stand)]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of the benchmarks; tests use small ones."""

    load_file: Path = load_files.PACKAGED
    clients: tuple[int, ...] = REPLAY_CLIENTS
    stream_bytes: int = STREAM_BYTES
    sessions: tuple[int, ...] = SESSIONS


def missing(sizes: Sizes) -> list[str]:
    programs = ("smbd", "pdbedit", "smbtorture", "smbclient", "nsenter")
    files = [] if sizes.load_file.is_file() else [str(sizes.load_file)]
    return [*(name for name in programs if find_program(name) is None), *files]


def cases(folder: Path, sizes: Sizes) -> list[FileCase]:
    """Return the benchmarks in order. Their input files are written into `folder`."""
    return [
        *(_replay(sizes, clients) for clients in sizes.clients),
        _messages(sizes),
        *(_stream(folder, sizes, way, most) for most in STREAM_LIMITS for way in load_files.STREAM_WAYS),
        idle(folder, sizes.sessions),
        working(folder, sizes.sessions),
    ]


def _replay(sizes: Sizes, clients: int) -> FileCase:
    tools = {
        OURS: dyno(OURS, sizes.load_file, "none", clients),
        TORTURE: smbtorture(TORTURE, sizes.load_file, clients),
        CACHED: dyno(CACHED, sizes.load_file, "leases", clients),
    }
    return FileCase(
        f"files-replay-{clients}",
        f"Replay of dbench's recording, {clients} client{'s' if clients > 1 else ''}",
        REPLAY_FIGURES,
        {name: partial(measure, tool=tool) for name, tool in tools.items()},
        (
            Goal(OURS, (TORTURE,), "client CPU, us/operation", Bound(0.5, at_least=False)),
            Goal(OURS, (TORTURE,), "operations/s", Bound(1.0)),
            Goal(OURS, (TORTURE,), "MB/s", Bound(1.0)),
        ),
    )


def _messages(sizes: Sizes) -> FileCase:
    """Compare the number of requests per operation: ours by our own count, smbtorture's by the server's count."""

    def ours(tool: FileTool, stand: FileStand) -> list[Run]:
        return [one_run(stand, tool)]

    def torture(stand: FileStand) -> list[Run]:
        before = stand.server.messages_served()
        run = one_run(stand, smbtorture(TORTURE, sizes.load_file, 1))
        after = stand.server.messages_served()
        if before is None or after is None:
            return []
        return [replace(run, details=run.details | {"messages": after - before})]

    return FileCase(
        "files-messages",
        "SMB requests per operation of that recording, 1 client",
        MESSAGE_FIGURES,
        {
            OURS: partial(ours, dyno(OURS, sizes.load_file, "none")),
            TORTURE: torture,
            CACHED: partial(ours, dyno(CACHED, sizes.load_file, "leases")),
        },
        most_rounds=1,
    )


def _stream(folder: Path, sizes: Sizes, way: str, most_bytes: int | None) -> FileCase:
    def ours(name: str, cache: str, verify_share: float, stand: FileStand) -> list[Run]:
        path = load_files.stream(folder / f"{way}.load", way, sizes.stream_bytes)
        tool = dyno(name, path, cache, verify_share=verify_share)
        return [in_pieces(run) for run in measure(stand, tool)]

    def theirs(stand: FileStand) -> list[Run]:
        local = folder / "local"
        if not local.exists():
            local.write_bytes(os.urandom(sizes.stream_bytes))
        return best_of(stand.effort.attempts, lambda: file_streams.transfer(stand, way, local))

    limit = "smbd's own limit for a request" if most_bytes is None else f"{most_bytes >> 10} KiB a request"
    tools: dict[str, Once] = {
        CACHED: partial(ours, CACHED, "leases", 1.0),
        file_streams.NAME: theirs,
        OURS: partial(ours, OURS, "none", 1.0),
    }
    if way == "read":
        tools[UNCHECKED] = partial(ours, UNCHECKED, "leases", 0.0)
    cpu = "client CPU, us/64 KiB"
    return FileCase(
        f"files-stream-{way}" + ("" if most_bytes is None else f"-{most_bytes >> 10}k"),
        f"One client, {way}s of a file of {sizes.stream_bytes >> 20} MiB in its order, {limit}",
        STREAM_FIGURES,
        tools,
        (
            Goal(CACHED, (file_streams.NAME,), "MB/s", Bound(1.0)),
            Goal(CACHED, (file_streams.NAME,), cpu, Bound(1.0, at_least=False)),
        ),
        most_bytes,
    )


def in_pieces(run: Run) -> Run:
    """Return the run with 64 KiB as the operation.

    The time of the few other operations (an open, a query and a close per pass) is included.
    """
    pieces = round(_told(run, "bytes_in_window") / load_files.PIECE_BYTES)
    return replace(run, requests=pieces, requests_s=pieces / run.measured_s)


def idle(
    folder: Path, sessions: Sequence[int], kind: type[FileCase] | None = None, name: str = "files-idle"
) -> FileCase:
    """Return the benchmark of idle sessions with a document each; memory is measured once all of them are idle."""

    def once(count: int, cache: str, stand: FileStand) -> list[Run]:
        server = stand.server
        before = server.rss_bytes() or 0
        document = load_files.office(folder / "office.load")
        tool = dyno(
            f"{OURS if cache == 'none' else CACHED}, {count:,} sessions",
            *(document, cache, count),
            think_time_s=IDLE_S,
            hold=True,
        )
        waiting = replace(stand, effort=replace(stand.effort, seconds=IDLE_LEVEL_S, patience_s=0))
        run = one_run(waiting, tool, lambda: {"server_rss_growth_bytes": (server.rss_bytes() or 0) - before})
        return [run]

    return (kind or FileCase)(
        name,
        "Memory of idle sessions" + ("" if kind is None else ", over NFS"),
        IDLE_FIGURES,
        {
            f"{count}, {cache}": partial(once, count, cache)
            for count in sessions
            for cache in ("none", "leases")
        },
        most_rounds=SESSION_ROUNDS,
        own_server=True,
    )


def working(
    folder: Path, sessions: Sequence[int], kind: type[FileCase] | None = None, name: str = SESSION_CASE
) -> FileCase:
    """Return the benchmark of many sessions that work at the same time, each on its own document."""

    def once(count: int, stand: FileStand) -> list[Run]:
        document = load_files.office(folder / "office.load")
        return measure(
            stand,
            dyno(f"{OURS}, {count:,} sessions", document, "none", count, ramp_up_s=stand.effort.seconds),
        )

    return (kind or FileCase)(
        name,
        "Many busy sessions, each with its own document" + ("" if kind is None else ", over NFS"),
        WORKING_FIGURES,
        {str(count): partial(once, count) for count in sessions},
        most_rounds=SESSION_ROUNDS,
        own_server=True,
    )


def count(places: Cpus, effort: Effort, sizes: Sizes) -> list[Run]:
    """Return runs whose `requests` and `server_requests` must be equal, in total and by name.

    Raises DynoError.
    """
    runs = []
    for cache in ("none", "leases"):
        with running_samba([places.server]) as server:
            stand = FileStand(f"{COUNT_PREFIX}-{cache}", server, places, effort)
            for number in range(min(COUNT_ROUNDS, effort.rounds)):
                tool = dyno(OURS, sizes.load_file, cache, COUNT_CLIENTS)
                runs += [replace(run, round=number) for run in _counted(stand, tool)]
    return runs


def _counted(stand: FileStand, tool: FileTool) -> Iterator[Run]:
    before = stand.server.operations_served()
    run = one_run(stand, tool)
    after = stand.server.operations_served()
    if before is None or after is None:  # smbstatus needs root
        return
    served = {name: after[name] - before.get(name, 0) for name in after}
    whole = _told(run, "messages_of_all")
    yield replace(run, requests=int(whole), server_requests=sum(served.values()))
    by_name = run.details["requests_by_name"]
    assert isinstance(by_name, dict)
    for ours, theirs in NAMES.items():
        if by_name.get(ours):
            yield replace(
                run,
                case=f"{run.case}-{ours.lower()}",
                requests=by_name[ours],
                server_requests=served.get(theirs, 0),
            )
