"""Re-enact the five published reports: run their plans, and write a page for each report into `docs/gallery/`.

`python tools/gallery.py [PLAN ...]` runs all plans of `PLANS`, or the named ones, at the scale given there. Experiments
stay in `experiments/gallery-PLAN`. An interrupted experiment is resumed; a finished one is not run again. The records
of each are kept in an archive next to the pages, from which `--pages` builds every page again without a run.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

from every_plan import listed_runs
from example_report import ROOT, dyno
from pyarrow import parquet

from serverdyno import report
from serverdyno.report.views.reenactment import extent
from serverdyno.store.experiment import Experiment
from serverdyno.units import format_duration_s

GALLERY = ROOT / "docs" / "gallery"
MOST_PAGE_BYTES = 1_500_000
MOST_ARCHIVE_BYTES = 5_500_000
# The plans of each published report, and the largest scale at which a plan takes at most two hours.
PLANS = {
    "1999-mindcraft-linux": {
        "mindcraft-1999-network": 0.3,
        "mindcraft-1999-network-files": 0.2,
        "mindcraft-1999-second": 0.12,
        "mindcraft-1999-second-files": 0.2,
    },
    "2001-etesting-netware": {"etesting-2001-processors": 0.06},
    "2002-etesting-sfu": {"etesting-2002-nfs": 1.0},
    "2003-veritest-iis": {
        "veritest-2003-web-static": 0.05,
        "veritest-2003-web-dynamic-cgi": 0.12,
        "veritest-2003-web-dynamic-inprocess": 0.12,
        "veritest-2003-web-ecommerce-cgi": 0.12,
        "veritest-2003-web-ecommerce-inprocess": 0.12,
    },
    "2004-veritest-samba": {
        "veritest-2004-peaks-departmental": 0.12,
        "veritest-2004-peaks-small": 0.12,
        "veritest-2004-samba": 0.025,
    },
}
INTRODUCTION = """# The five reports today

Each page has the figures of a published report in their order, ours below each, and which of its claims hold for
servers of today. The archives have the records of the experiments: unpacked, one is a folder for `dyno report`.
`make gallery` runs the plans again.
"""

RUNS_INTRODUCTION = """## Each shipped plan, run once

On two CPUs, by `tools/every_plan.py`. Without an estimate, levels end when their work is done.
"""


def main() -> None:
    """Write the pages. If a `dyno` command fails, exit with its status, and keep what was measured."""
    scales = {plan: scale for plans in PLANS.values() for plan, scale in plans.items()}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "plans", nargs="*", metavar="PLAN", choices=[[], *scales], help="all if none is named"
    )
    parser.add_argument("--scale", type=float, help="shorten every load level to this share of its length")
    parser.add_argument("--pages", action="store_true", help="run nothing")
    arguments = parser.parse_args()
    if arguments.pages:
        write_pages()
        return
    for plan in arguments.plans or scales:
        archive(measured(plan, arguments.scale or scales[plan]), plan)
        write_pages()


def measured(plan: str, scale: float) -> Path:
    """Run the plan, or continue its experiment, and return the experiment's folder."""
    experiment = ROOT / "experiments" / f"gallery-{plan}"
    if experiment.exists():
        dyno("resume", str(experiment))
    else:
        dyno("run", str(ROOT / "plans" / f"{plan}.toml"), "--scale", str(scale), "--into", str(experiment))
    return experiment


def archive(experiment: Path, plan: str) -> None:
    """Archive an experiment without its report, replacing an earlier one.

    Records are compressed together, which saves more space.
    """
    file = GALLERY / f"{plan}.tar.xz"
    with tempfile.TemporaryDirectory(prefix="serverdyno-gallery-") as folder:
        copied = Path(folder) / plan
        shutil.copytree(experiment, copied, ignore=shutil.ignore_patterns("report", ".lock"))
        for record in copied.rglob("*.parquet"):
            parquet.write_table(
                parquet.read_table(record),
                record,
                compression="none",
                use_dictionary=False,
                write_statistics=False,
            )
        with tarfile.open(file, "w:xz", preset=9) as tar:
            tar.add(copied, plan)
    check_size(file, MOST_ARCHIVE_BYTES)


def write_pages() -> None:
    """Write the page of each report from the archives of its plans, and the list of all."""
    lines = [INTRODUCTION]
    for name, plans in PLANS.items():
        page = GALLERY / f"{name}.html"
        lines.append(f"\n## [{name}]({page.name})\n")
        with tempfile.TemporaryDirectory(prefix="serverdyno-gallery-") as folder:
            experiments = list(unpacked(plans, Path(folder)))
            lines += [listed(experiment) for experiment in experiments]
            if experiments:
                others = [part for each in experiments[1:] for part in ("--with", str(each))]
                dyno("report", str(experiments[0]), "--as", name, *others)
                shutil.copyfile(experiments[0] / "report" / f"as-{name}.html", page)
            else:
                lines.append("No plan has been run.")
                dyno("published", "show", name, "--html", str(page))
        check_size(page, MOST_PAGE_BYTES)
    lines += ["", *table_of_runs()]
    (GALLERY / "README.md").write_text("\n".join(lines) + "\n")


def table_of_runs() -> list[str]:
    """Return the lines of `runs.csv` as a table, without any if nothing was run."""
    rows = [
        f"| {run.name} | {run.date} | {run.scale:g} | {run.runs} | {run.levels} | "
        f"{format_duration_s(run.estimated_s) if run.estimated_s else ''} | {format_duration_s(run.took_s)} | "
        f"{run.operations:,} | {run.errors:,} | {run.status} |"
        for run in listed_runs()
    ]
    head = "| plan or suite | date | scale | runs | levels each | estimate | took | operations | errors | exit status |"
    return (
        [RUNS_INTRODUCTION, head, "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|", *rows] if rows else []
    )


def unpacked(plans: dict[str, float], folder: Path) -> list[Path]:
    """Unpack the archives of those plans that have been run."""
    found = []
    for plan in plans:
        if (file := GALLERY / f"{plan}.tar.xz").exists():
            with tarfile.open(file) as tar:
                tar.extractall(folder, filter="data")
            found.append(folder / plan)
    return found


def listed(experiment: Path) -> str:
    """Return an experiment's line in the list."""
    source = report.build(Experiment.open(experiment)).source
    return f"* [{experiment.name}]({experiment.name}.tar.xz): {extent(source)}"


def check_size(file: Path, most: int) -> None:
    if file.stat().st_size > most:
        sys.exit(f"{file} has more than {most:,} bytes")
    print(file)


if __name__ == "__main__":
    main()
