"""`python -m benches.verdicts`: what verdicts say of real pairs of servers, equal ones and ones that differ by 5 %.

Two reference servers, each a process of its own that waits a while before each answer: 20 ms, and in the second half of
the pairs one of the two 21 ms, which is a slowdown of 5 %. Every pair is an experiment of its own, with six interleaved
repetitions of one short mix, judged by the functions that reports use. Writes a dated folder with a row for each pair.
Some 15 minutes; wants a quiet machine.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from serverdyno.analysis.improvement import Improvement, Metric, Verdict
from serverdyno.errors import DynoError
from serverdyno.plan.load import parse_plan
from serverdyno.plan.model import Mix, RunKey, Suite
from serverdyno.probes.host import host_facts
from serverdyno.report.build import build
from serverdyno.runner.create import create_experiment
from serverdyno.runner.experiment import carry_out
from serverdyno.servers.registry import settings_types
from serverdyno.store.records import MixRecord
from serverdyno.suites import parse

RUNS = Path(__file__).parent / "runs"
PAIRS = 20
REPETITIONS = 6
BASE_MS, SLOWER_MS = 20, 21
START_TIMEOUT_S = 60
CLAIMS = (Verdict.FASTER, Verdict.SLOWER)
SUITE = """
name = "verdicts"
title = "One short mix"
source = "Serverdyno"
workload = "webbench-static"
clients = [16]
length_s = 1.4
ramp_up_s = 0.2
ramp_down_s = 0.1
[http]
version = "1.1"
keep_alive = true
"""
PLAN = """
name = "verdicts"
title = "A server against itself, or against a slower one"
suite = "verdicts"
repetitions = {repetitions}
seed = {seed}
[[servers]]
server = "external"
name = "a"
url = "{a}"
[[servers]]
server = "external"
name = "b"
url = "{b}"
"""


@dataclass(frozen=True)
class Pair:
    """One experiment. `slower`: whether the second server was 5 % slower; `found`: average, then peak."""

    number: int
    slower: bool
    found: tuple[Improvement, ...]

    @property
    def average(self) -> Improvement:
        """The primary figure."""
        return next(each for each in self.found if each.figure is Metric.OVERALL_AVERAGE)

    @property
    def is_false(self) -> bool:
        """Whether anything is claimed that is not so."""
        right = Verdict.SLOWER if self.slower else None
        return any(each.verdict in CLAIMS and each.verdict is not right for each in self.found)

    @property
    def is_found(self) -> bool:
        """Whether the slowdown is claimed in the primary figure."""
        return self.slower and self.average.verdict is Verdict.SLOWER


class _Silent:
    """A listener to the runner that tells of failures alone."""

    def stage(self, text: str) -> None: ...
    def mix_started(self, run: RunKey, mix: Mix, left_s: float) -> None: ...
    def mix_tick(self, snapshot: object) -> None: ...
    def mix_finished(self, record: MixRecord) -> None: ...
    def notice(self, text: str, hint: str | None = None) -> None: ...

    def run_failed(self, run: RunKey, error: DynoError) -> None:
        """Says why."""
        print(f"{run.folder}: {error}", file=sys.stderr)


@contextmanager
def reference(delay_ms: int) -> Iterator[str]:
    """A reference server that waits so long before each answer; its URL. Ended by its own process id."""
    command = [sys.executable, "-m", "serverdyno", "reference", "http", "--fault", f"delay={delay_ms}ms"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{json.loads(process.stdout.readline())['port']}/"
        finally:
            process.terminate()
            process.wait(START_TIMEOUT_S)


def carry_out_pair(number: int, urls: Sequence[str], *, slower: bool, repetitions: int, suite: Suite) -> Pair:
    """One experiment in a folder that is removed afterwards. Raises DynoError where a run failed."""
    text = PLAN.format(repetitions=repetitions, seed=number, a=urls[0], b=urls[1])
    plan = parse_plan(text, "the plan of this bench", settings_types(), suite=suite)
    with (
        tempfile.TemporaryDirectory(prefix="serverdyno-bench-") as folder,
        create_experiment(Path(folder) / "experiment", text, plan, suite) as experiment,
    ):
        if not carry_out(experiment, _Silent()):
            raise DynoError(f"pair {number}: a run failed")
        [comparison] = build(experiment).comparisons
    return Pair(number, slower, comparison.improvements)


def pairs(count: int, repetitions: int) -> Iterator[Pair]:
    """Equal servers first, then those of which the second is slower; the base changes sides from pair to pair."""
    suite = parse(SUITE, "the suite of this bench")
    with reference(BASE_MS) as first, reference(BASE_MS) as second, reference(SLOWER_MS) as slower:
        for number in range(1, 2 * count + 1):
            planted = number > count
            base = (first, second)[number % 2]
            other = slower if planted else (second, first)[number % 2]
            pair = carry_out_pair(number, (base, other), slower=planted, repetitions=repetitions, suite=suite)
            print(f"pair {number} of {2 * count}: {_words(pair)}", file=sys.stderr, flush=True)
            yield pair


def _words(pair: Pair) -> str:
    found, true = pair.average, "5 % slower" if pair.slower else "equal"
    interval = f"{_percent(found.low_percent)} to {_percent(found.high_percent)}"
    return f"{true}: {_percent(found.percent)} ({interval}), {found.verdict}"


def _percent(percent: float | None) -> str:
    return "unknown" if percent is None else f"{percent:+.2f} %"


def write(folder: Path, done: Sequence[Pair], took_s: float) -> None:
    """README.md with the counts, verdicts.csv with a row a figure, host.json."""
    folder.mkdir(parents=True)
    with (folder / "verdicts.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["pair", "true", "figure", "percent", "low_percent", "high_percent", "verdict"])
        for pair in done:
            true = "5 % slower" if pair.slower else "equal"
            for each in pair.found:
                row = (pair.number, true, each.figure, each.percent, each.low_percent, each.high_percent)
                table.writerow([*row, each.verdict.value])
    (folder / "host.json").write_text(json.dumps(host_facts(), indent=1, default=str) + "\n")
    (folder / "README.md").write_text("\n".join(_readme(done, took_s)) + "\n")


def _readme(done: Sequence[Pair], took_s: float) -> Iterator[str]:
    equal, planted = ([pair for pair in done if pair.slower is slower] for slower in (False, True))
    yield "# Verdicts on real pairs"
    yield ""
    yield f"Made by `python -m benches.verdicts` on {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, in {took_s / 60:.0f} min."
    yield f"Reference servers that wait {BASE_MS} ms before each answer, the slower ones {SLOWER_MS} ms; 16 clients."
    yield ""
    yield "| pairs | number | any false claim | slowdown found in the average | verdicts on the average |"
    yield "|---|---:|---:|---:|---|"
    for name, group in (("equal", equal), ("one 5 % slower", planted)):
        counted = Counter(pair.average.verdict.value for pair in group)
        listed = ", ".join(f"{count} {verdict}" for verdict, count in counted.items())
        found = f"{sum(pair.is_found for pair in group)}" if group and group[0].slower else ""
        yield f"| {name} | {len(group)} | {sum(pair.is_false for pair in group)} | {found} | {listed} |"
    yield ""
    yield "Goal: one false claim at most, 17 of 20 slowdowns found. Every figure with its interval: `verdicts.csv`."


def main() -> int:
    """Runs all pairs and prints where the folder is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=PAIRS, help="of each kind")
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--into", type=Path, help="a folder that is not there; otherwise a dated one")
    options = parser.parse_args()
    start = time.monotonic()
    done = list(pairs(options.pairs, options.repetitions))
    folder = options.into or RUNS / f"{datetime.now(UTC):%Y-%m-%d}-verdicts"
    write(folder, done, time.monotonic() - start)
    print((folder / "README.md").read_text())
    print(f"written to {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
