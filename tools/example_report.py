"""Create the example reports to which the README links, in `docs/example/` and `docs/example-files/`.

Run `python tools/example_report.py [EXPERIMENT ...]` with finished experiments of the plans of `make demo`. Without
arguments, both plans run first, each in its own folder. The report is copied unedited, as `dyno report` writes it, so
that a reader's own report looks like the example. Files of more than `MOST_BYTES` are left out, because they can be
generated from an experiment.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST_BYTES = 1_000_000
"""Maximum size of a file of an example in the repository, in bytes."""
# The folder of each example, by the name of its plan.
EXAMPLES = {
    "demo-three-web-servers": ROOT / "docs" / "example",
    "demo-samba-strict-sync": ROOT / "docs" / "example-files",
}


def main() -> None:
    """Write the examples. If a `dyno` command fails, exit with its status and keep the previous example."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("experiments", type=Path, nargs="*", help="finished experiments; otherwise new ones")
    experiments: list[Path] = parser.parse_args().experiments
    for experiment in experiments:
        dyno("report", str(experiment))
        publish(experiment)
    if not experiments:
        with tempfile.TemporaryDirectory(prefix="serverdyno-example-") as folder:
            for name in EXAMPLES:
                experiment = Path(folder) / name
                dyno("run", str(ROOT / "plans" / f"{name}.toml"), "--into", str(experiment))
                publish(experiment)


def publish(experiment: Path) -> None:
    """Replace the previous example with the experiment's report."""
    plan = tomllib.loads((experiment / "plan.toml").read_text())
    example = EXAMPLES[plan["name"]]
    shutil.rmtree(example, ignore_errors=True)
    report = experiment / "report"
    shutil.copytree(report, example, ignore=_too_big)
    if not (example / "report.html").is_file():
        sys.exit(f"{report / 'report.html'} has more than {MOST_BYTES:,} bytes")
    print(example / "report.html")


def _too_big(folder: str, names: list[str]) -> list[str]:
    return [
        name for name in names if (path := Path(folder) / name).is_file() and path.stat().st_size > MOST_BYTES
    ]


def dyno(*arguments: str) -> None:
    """Run a command of dyno. If it fails, exit with its status."""
    status = subprocess.run([sys.executable, "-m", "serverdyno", *arguments], check=False).returncode
    if status:
        sys.exit(status)


if __name__ == "__main__":
    main()
