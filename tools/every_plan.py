"""Run each shipped plan and suite once, and list the runs in `docs/gallery/runs.csv`.

`python tools/every_plan.py [--minutes 120] [NAME ...]`: without names, it runs the plans that the list lacks, and the
suites that neither the list nor a plan names. A suite runs in the first plan that accepts it, `CARRIERS` first. Each
runs at the largest scale with an estimated time of at most `--minutes`. Experiments stay in `experiments/every-NAME`.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path

from example_report import ROOT
from pydantic import TypeAdapter

from serverdyno.errors import PlanError
from serverdyno.plan import suites
from serverdyno.plan.expand import as_run, levels_of
from serverdyno.plan.load import load_plan
from serverdyno.plan.order import order
from serverdyno.run.placed import placed
from serverdyno.run.time_left import lowest_bound, time_left
from serverdyno.servers.registry import settings_types
from serverdyno.store.experiment import Experiment

RUNS = ROOT / "docs" / "gallery" / "runs.csv"
PLANS = {path.stem: path for path in sorted((ROOT / "plans").glob("*.toml"))}
CARRIERS = ("quick-static", "quick-files", "quick-objects")


@dataclass(frozen=True)
class Run:
    """The result of one plan. `estimated_s` is 0 if levels end when their work is done."""

    name: str
    date: str
    scale: float
    runs: int
    levels: int
    estimated_s: int
    took_s: int
    operations: int
    errors: int
    status: int


def main() -> None:
    """Run the named plans and suites, or those that the list lacks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *PLANS, *suites.names()])
    parser.add_argument("--minutes", type=float, default=120.0, help="maximum estimated time of each")
    arguments = parser.parse_args()
    listed = {run.name: run for run in listed_runs()}
    for name in arguments.names or [name for name in wanted() if name not in listed]:
        plan, suite = (PLANS[name], None) if name in PLANS else (carrier(name), Path(name))
        if plan is None:
            print(f"{name}: no shipped plan has a server for this suite")
            continue
        listed[name] = run_once(name, plan, suite, arguments.minutes * 60)
        write(sorted(listed.values(), key=lambda run: run.name))


def wanted() -> list[str]:
    """Return the plans, and the suites that no plan names."""
    used = {suite.name for plan in PLANS.values() for suite in load_plan(plan, settings_types()).suites}
    return [*PLANS, *(name for name in suites.names() if name not in used)]


def run_once(name: str, plan: Path, suite: Path | None, most_s: float) -> Run:
    """Run a plan, with another suite if one is given. Return the result, even if the run failed."""
    scale = largest_scale(plan, suite, most_s)
    folder = ROOT / "experiments" / f"every-{name}"
    also = [] if suite is None else ["--suite", str(suite)]
    begun, begun_s = datetime.now(UTC), time.monotonic()
    command = ["run", str(plan), "--scale", str(scale), "--into", str(folder), *also]
    print(f"{begun:%H:%M:%S} {' '.join(command)}", flush=True)
    status = subprocess.run([sys.executable, "-m", "serverdyno", *command], check=False).returncode
    took_s = round(time.monotonic() - begun_s)
    head, records = None, []
    if folder.exists():
        experiment = Experiment.open(folder)
        head, records = experiment.head, experiment.levels()
    return Run(
        name=name,
        date=f"{begun:%Y-%m-%d}",
        scale=scale,
        runs=0 if head is None else len(head.order),
        levels=0 if head is None else len(head.levels),
        estimated_s=round(estimated_s(plan, suite, scale)),
        took_s=took_s,
        operations=sum(record.operations for record in records),
        errors=sum(record.failures for record in records),
        status=status,
    )


def carrier(suite: str) -> Path | None:
    """Return the plan to run a suite in; None if no plan has a server for it."""
    for name in (*CARRIERS, *PLANS):
        try:
            load_plan(PLANS[name], settings_types(), None, Path(suite))
        except PlanError:
            continue
        return PLANS[name]
    return None


def largest_scale(plan: Path, suite: Path | None, most_s: float) -> float:
    """Return the largest scale with an estimate of at most `most_s`, to two digits."""
    scale = 1.0
    while (takes_s := estimated_s(plan, suite, scale)) > most_s:
        scale = float(f"{scale * min(0.95, most_s / takes_s):.2g}")
    return scale


def estimated_s(plan: Path, suite: Path | None, scale: float) -> float:
    """Return the estimate of `dyno plan check`."""
    loaded = load_plan(plan, settings_types(), scale, suite)
    as_they_run = [as_run(each, scale) for each in loaded.suites]
    levels = levels_of(as_they_run, scale)
    configurations, _ = placed(loaded.plan)
    runs = order(configurations, loaded.plan.repetitions, loaded.plan.order, loaded.plan.seed)
    bound = lowest_bound(configurations)
    left = time_left(as_they_run, [levels for _ in runs], loaded.plan.testbed, bound)
    return left.total_s() if left.load_s else 0.0


def listed_runs() -> list[Run]:
    """Return the runs in the list."""
    if not RUNS.exists():
        return []
    with RUNS.open(newline="") as file:
        return TypeAdapter(list[Run]).validate_python(list(csv.DictReader(file)))


def write(runs: list[Run]) -> None:
    with RUNS.open("w", newline="") as file:
        writer = csv.DictWriter(file, [each.name for each in fields(Run)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(run) for run in runs)


if __name__ == "__main__":
    main()
