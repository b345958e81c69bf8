"""Makes `docs/example/`, the example report that the README links: `python tools/example_report.py [EXPERIMENT]`.

Without an argument the plan of `make demo` is carried out first, in a folder of its own. What is copied is the report
as `dyno report` writes it: nothing is edited or chosen, so that the example is as good or bad as a reader's own.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLAN = ROOT / "plans" / "demo-three-web-servers.toml"
EXAMPLE = ROOT / "docs" / "example"


def main() -> None:
    """Ends with the exit status of the `dyno` that failed; the example is then left as it was."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("experiment", type=Path, nargs="?", help="a finished experiment; otherwise a new one")
    experiment: Path | None = parser.parse_args().experiment
    with tempfile.TemporaryDirectory(prefix="serverdyno-example-") as folder:
        if experiment is None:
            experiment = Path(folder) / "experiment"
            dyno("run", str(PLAN), "--into", str(experiment))
        else:
            dyno("report", str(experiment))
        shutil.rmtree(EXAMPLE, ignore_errors=True)
        shutil.copytree(experiment / "report", EXAMPLE)
    print(EXAMPLE / "report.html")


def dyno(*arguments: str) -> None:
    """Runs the tool as a user does."""
    status = subprocess.run([sys.executable, "-m", "serverdyno", *arguments], check=False).returncode
    if status:
        sys.exit(status)


if __name__ == "__main__":
    main()
