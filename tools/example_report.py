"""Makes the example reports that the README links, in `docs/example/` and `docs/example-files/`.

`python tools/example_report.py [EXPERIMENT ...]`: finished experiments of the plans of `make demo`; without any, both
plans are carried out first, each in a folder of its own. What is copied is the report as `dyno report` writes it:
nothing is edited or chosen, so that an example is as good or bad as a reader's own.
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
# By the name of the plan.
EXAMPLES = {
    "demo-three-web-servers": ROOT / "docs" / "example",
    "demo-samba-strict-sync": ROOT / "docs" / "example-files",
}


def main() -> None:
    """Ends with the exit status of the `dyno` that failed; its example is then left as it was."""
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
    """Puts its report in the place of the example before it."""
    plan = tomllib.loads((experiment / "plan.toml").read_text())
    example = EXAMPLES[plan["name"]]
    shutil.rmtree(example, ignore_errors=True)
    shutil.copytree(experiment / "report", example)
    print(example / "report.html")


def dyno(*arguments: str) -> None:
    """Runs the tool as a user does."""
    status = subprocess.run([sys.executable, "-m", "serverdyno", *arguments], check=False).returncode
    if status:
        sys.exit(status)


if __name__ == "__main__":
    main()
