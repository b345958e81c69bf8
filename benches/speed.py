"""The benchmarks of speed: requests/s and CPU time per request, against wrk and ab, in interleaved rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benches.ratios import Bound, Spread, spread
from benches.rounds import Cpus, Effort, Run, Stand, rounds
from benches.tools import CONNECTIONS, Tool, ab, dyno, wrk, wrk_thinking
from serverdyno.servers import dynamic
from serverdyno.servers.registry import driver_type
from serverdyno.servers.running import running

BODY_BYTES = 1024
# A file of the WebBench tree, of the class with many files that is closest to 1 KiB.
DOCUMENT = "/wbtree/735/735_0000.gif"
NGINX = {"workers": 1, "access_log": False, "open_file_cache": True}
CLOSE = "Connection: close"
THINK_MS = 4
"""Think time of both tools, so that neither is the limit and both send about 16,000 requests/s."""

ReadFigure = Callable[[Run], float | None]
FIGURES: dict[str, ReadFigure] = {
    "requests/s": lambda run: run.requests_s,
    "generator CPU, us/request": lambda run: run.generator_cpu_us,
    "server CPU, us/request": lambda run: run.server_cpu_us,
}


@dataclass(frozen=True, slots=True)
class Goal:
    """A target for the ratio of our figure to the best peer's figure, round by round."""

    ours: str
    peers: tuple[str, ...]
    figure: str
    bound: Bound

    @property
    def subject(self) -> str:
        """The two sides of the ratio: `dyno / better of wrk and ab`."""
        best = self.peers[0] if len(self.peers) == 1 else f"better of {' and '.join(self.peers)}"
        return f"{self.ours} / {best}"

    def ratios(self, runs: Sequence[Run], figures: Mapping[str, ReadFigure]) -> Spread | None:
        """Return the ratios of the rounds in which ours and all peers ran; None if there are none.

        A round whose best peer has 0 has no ratio: its CPU time or memory was too small to be measured.
        """
        figure, better = figures[self.figure], max if self.bound.at_least else min
        by_round: dict[int, dict[str, float]] = {}
        for run in runs:
            value = figure(run)
            if run.kept and value is not None:
                by_round.setdefault(run.round, {})[run.tool] = value
        found = [
            row[self.ours] / best
            for row in by_round.values()
            if {self.ours, *self.peers} <= row.keys() and (best := better([row[peer] for peer in self.peers]))
        ]
        return spread(found) if found else None


@dataclass(frozen=True, slots=True)
class Case:
    """A benchmark: one server with its settings, and the tools that are compared on it."""

    name: str
    title: str
    server: str
    settings: dict[str, Any]
    path: str
    tools: tuple[Tool, ...]
    goals: tuple[Goal, ...] = field(default=())

    @property
    def figures(self) -> Mapping[str, ReadFigure]:
        return FIGURES

    @property
    def installed(self) -> bool:
        return driver_type(self.server).installed() is not None

    def carry_out(self, places: Cpus, effort: Effort) -> list[Run]:
        """Run every round with the installed tools. Raises DynoError."""
        present = [tool for tool in self.tools if tool.installed]
        with running(self.server, self.settings, cpus=[places.server]) as server:
            return rounds(Stand(self.name, server, self.path, places, effort), present)


@dataclass(frozen=True, slots=True)
class ShareCase(Case):
    """A benchmark of the generator's share of the CPU time of generator and server."""

    @property
    def figures(self) -> Mapping[str, ReadFigure]:
        return {**FIGURES, "generator's share of CPU time, %": _generator_share}


def _generator_share(run: Run) -> float | None:
    if run.generator_cpu_us is None or run.server_cpu_us is None:
        return None
    return 100 * run.generator_cpu_us / (run.generator_cpu_us + run.server_cpu_us)


def cases() -> list[Case]:
    """Return the benchmarks in order."""
    return [
        _reference_keep_alive(),
        _reference_close(),
        *_nginx(),
        _nginx_same_rate(),
        _nginx_tree(),
        _apache_cgi(),
    ]


def _reference_keep_alive() -> Case:
    return Case(
        "reference-keep-alive",
        f"Reference server, {BODY_BYTES} bytes, {CONNECTIONS} connections, HTTP/1.1 keep-alive",
        "reference",
        {"body_bytes": BODY_BYTES},
        "/",
        (dyno(), wrk()),
        (Goal("dyno", ("wrk",), "requests/s", Bound(1.2)),),
    )


def _reference_close() -> Case:
    return Case(
        "reference-close",
        f"Reference server, {BODY_BYTES} bytes, {CONNECTIONS} connections at a time, a new one for each request",
        "reference",
        {"body_bytes": BODY_BYTES},
        "/",
        (
            dyno(keep_alive=False),
            wrk("wrk", CLOSE),
            ab(),
            dyno("dyno, HTTP/1.0", keep_alive=False, http_version="1.0"),
            dyno("dyno, new sockets", keep_alive=False, fresh_sockets=True),
            dyno("dyno, reset", keep_alive=False, close="reset"),
        ),
        (
            Goal("dyno", ("wrk", "ab"), "requests/s", Bound(1.1)),
            Goal("dyno, HTTP/1.0", ("wrk", "ab"), "requests/s", Bound(1.1)),
        ),
    )


def _nginx() -> Iterator[Case]:
    goals = (
        Goal("dyno", ("wrk",), "requests/s", Bound(1.0)),
        Goal("dyno", ("wrk",), "generator CPU, us/request", Bound(1.0, at_least=False)),
    )
    for sendfile in (False, True):
        for keep_alive in (True, False):
            words = "keep-alive" if keep_alive else "close"
            yield Case(
                f"nginx-sendfile-{'on' if sendfile else 'off'}-{words}",
                f"nginx, one worker, sendfile {'on' if sendfile else 'off'}, 735 bytes, {CONNECTIONS} connections, "
                + ("HTTP/1.1 keep-alive" if keep_alive else "HTTP/1.1, a new connection for each request"),
                "nginx",
                NGINX | {"sendfile": sendfile},
                DOCUMENT,
                (dyno(keep_alive=keep_alive), wrk("wrk", *([] if keep_alive else [CLOSE]))),
                goals,
            )


def _nginx_same_rate() -> Case:
    return Case(
        "nginx-same-rate",
        f"nginx, one worker, {CONNECTIONS} kept connections, each {THINK_MS} ms between an answer and the next request",
        "nginx",
        NGINX,
        DOCUMENT,
        (dyno(think_time_s=THINK_MS / 1e3), wrk_thinking(THINK_MS)),
        (Goal("dyno", ("wrk",), "server CPU, us/request", Bound(1.02, at_least=False)),),
    )


def _nginx_tree() -> Case:
    return Case(
        "nginx-tree",
        f"nginx, one worker, the WebBench tree with every body verified, {CONNECTIONS} connections, keep-alive",
        "nginx",
        NGINX,
        "/",
        (dyno("dyno, WebBench tree", workload="webbench-static", verify_share=1.0),),
    )


def _apache_cgi() -> Case:
    return ShareCase(
        "apache-cgi",
        f"Apache, a page of 1,024 bytes by CGI, {CONNECTIONS} kept connections",
        "apache",
        {"dynamic": "cgi"},
        dynamic.PATH,
        (dyno(),),
    )
