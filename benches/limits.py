"""`python -m benches.limits`: whether the mark G is right. Each load is made again with 20 % more CPU time a request.

Where the generator limits a load, that must cost throughput: more than 4 % where G is set, and no more where it is not.
Plain and slowed mixes alternate, and the change is the mean of the log ratios of neighbours with its 95 % interval; one
that has 4 % in it can't tell. Generator and server have a CPU each. Some eight minutes; wants a quiet machine. Not for
the bound itself, by how much a server may be faster than shown.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from benches.mixes import http_target, web_mix
from benches.rounds import Cpus, cpus
from serverdyno import units
from serverdyno.analysis.contrast import of_one
from serverdyno.analysis.trust import generator_marks, hidden_speed, waiting_share
from serverdyno.errors import DynoError
from serverdyno.probes.host import host_facts
from serverdyno.servers.base import ServerDriver
from serverdyno.servers.running import running

RUNS = Path(__file__).parent / "runs"
ADDED_SHARE = 0.20
"""Of the generator's own CPU time a request."""
TOLD_SHARE = 0.04
"""Of the throughput, by which it must fall where the generator limits it."""
PAIRS, SECONDS, RAMP_S = 8, 3.0, 0.5
PATIENCE_S = 60.0


@dataclass(frozen=True)
class Case:
    """A server under a load of so many kept-alive connections."""

    name: str
    server: str
    settings: Mapping[str, Any]
    clients: int


CASES = (
    Case("reference, 1 client", "reference", {}, 1),
    Case("reference, 64 clients", "reference", {}, 64),
    Case("reference with 4 threads, 64 clients", "reference", {"threads": 4}, 64),
    Case("nginx, 64 clients", "nginx", {}, 64),
    Case("lighttpd, 64 clients", "lighttpd", {}, 64),
    Case("Apache, 8 clients", "apache", {}, 8),
    Case("Apache, 64 clients", "apache", {}, 64),
)


@dataclass(frozen=True)
class Reading:
    """One mix. `waiting`: the generator's share of the round trips; `server_share`: of its CPU that was busy."""

    requests_s: float
    cpu_ns: float
    waiting: float
    server_share: float


class Judgement(StrEnum):
    """Of the mark in one case."""

    RIGHT = "right"
    WRONG = "wrong"
    CANT_TELL = "can't tell"


@dataclass(frozen=True)
class Row:
    """One case. Shares; `change`, `low`, `high`: of the throughput with more work a request."""

    case: str
    waiting: float
    server_share: float
    hidden: float
    marked: bool
    change: float
    low: float
    high: float

    @property
    def judgement(self) -> Judgement:
        """Whether the throughput did what the mark says."""
        if self.low <= -TOLD_SHARE <= self.high:
            return Judgement.CANT_TELL
        return Judgement.RIGHT if (self.high < -TOLD_SHARE) is self.marked else Judgement.WRONG


def carry_out(case: Case, places: Cpus, pairs: int, seconds: float) -> Row:
    """Raises DynoError where the server does not start, or nothing is answered."""
    plain: list[Reading] = []
    slowed: list[Reading] = []
    with running(case.server, case.settings, cpus=[places.server]) as server:
        added_ns = round(ADDED_SHARE * measured(case, server, places, seconds, 0).cpu_ns)
        for number in range(pairs):
            turns = [(plain, 0), (slowed, added_ns)]
            for into, added in turns if number % 2 == 0 else reversed(turns):
                into.append(measured(case, server, places, seconds, added))
    return row(case.name, plain, slowed)


def measured(case: Case, server: ServerDriver, places: Cpus, seconds: float, added_cpu_ns: int) -> Reading:
    """One mix. `added_cpu_ns`: to the generator's work on each request."""
    mix = web_mix(
        http_target(server.url),
        workload="webbench-static",
        clients=case.clients,
        http_version="1.1",
        keep_alive=True,
        length_s=seconds + RAMP_S,
        ramp_up_s=RAMP_S,
        cpus=[places.generator],
        added_cpu_ns=added_cpu_ns,
    )
    begun_s, cpu_before_s = time.monotonic(), server.cpu_s() or 0.0
    load = mix.start()
    if not load.wait(PATIENCE_S):
        raise DynoError(f"{case.name}: the mix does not end")
    server_share = ((server.cpu_s() or 0.0) - cpu_before_s) / (time.monotonic() - begun_s)
    result = load.result()
    generator, operations = result["generator"], result["operations"]
    delay_s = generator["run_delay_s"]
    run_delay = None if delay_s is None else delay_s / (generator["threads"] * result["window_s"])
    waiting = waiting_share(generator["ready_work_s"], result["outstanding_s"], run_delay)
    if not operations or waiting is None or result["errors"]:
        raise DynoError(f"{case.name}: {operations:,} answers, and {len(result['errors'])} kinds of error")
    cpu_s = generator["cpu_user_s"] + generator["cpu_system_s"]
    return Reading(
        operations / result["window_s"], cpu_s / operations * units.NS_PER_S, waiting, server_share
    )


def row(name: str, plain: Sequence[Reading], slowed: Sequence[Reading]) -> Row:
    """Judge one case by pairs of neighbours."""
    waiting = fmean(each.waiting for each in plain)
    server_share = min(1.0, fmean(each.server_share for each in plain))
    hidden = hidden_speed(waiting, server_share) or 0.0
    logs = np.log([after.requests_s / before.requests_s for before, after in zip(plain, slowed, strict=True)])
    found = of_one(logs)
    change, low, high = (float(np.expm1(each)) for each in (found.estimate, *found.interval()))
    return Row(name, waiting, server_share, hidden, bool(generator_marks(hidden)), change, low, high)


def write(folder: Path, rows: Sequence[Row], command: str) -> None:
    """README.md with the table, limits.csv with the same, host.json."""
    folder.mkdir(parents=True)
    with (folder / "limits.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow([*(field.name for field in fields(Row)), "judgement"])
        table.writerows([*astuple(each), each.judgement.value] for each in rows)
    (folder / "host.json").write_text(json.dumps(host_facts(), indent=1, default=str) + "\n")
    (folder / "README.md").write_text("\n".join(_readme(rows, command)) + "\n")


def _readme(rows: Sequence[Row], command: str) -> Iterator[str]:
    yield "# The mark G against 20 % more CPU time a request"
    yield ""
    yield f"Made by `{command}` on {datetime.now(UTC):%Y-%m-%d %H:%M} UTC. A CPU for the generator, one for the server."
    yield ""
    yield "| load | generator's share | server's CPU | hidden speed | G | change (95 % interval) | mark |"
    yield "|---|---:|---:|---:|---|---:|---|"
    for each in rows:
        shares = " | ".join(f"{share:.1%}" for share in (each.waiting, each.server_share, each.hidden))
        change = f"{each.change:+.1%} ({each.low:+.1%} to {each.high:+.1%})"
        yield f"| {each.case} | {shares} | {'G' if each.marked else ''} | {change} | {each.judgement} |"
    yield ""
    yield "Right: throughput falls by more than 4 % with G, and by no more without. Can't tell: the interval holds 4 %."


def main() -> int:
    """Runs all cases and prints where the folder is."""
    parser = argparse.ArgumentParser(prog="python -m benches.limits", description=__doc__)
    parser.add_argument("--pairs", type=int, default=PAIRS, help="of mixes in each case")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each mix")
    parser.add_argument("--into", type=Path, help="a folder that is not there; otherwise a dated one")
    options = parser.parse_args()
    rows = []
    for case in CASES:
        try:
            rows.append(carry_out(case, cpus(), options.pairs, options.seconds))
            print(f"{case.name}: {rows[-1].judgement}", file=sys.stderr, flush=True)
        except DynoError as error:
            print(f"{case.name}, left out: {error}", file=sys.stderr, flush=True)
    folder = options.into or RUNS / f"{datetime.now(UTC):%Y-%m-%d}-limits"
    write(folder, rows, " ".join(["python -m benches.limits", *sys.argv[1:]]))
    print((folder / "README.md").read_text())
    print(f"written to {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
