"""Print the end of `make demo`: each report's answer in a few lines, the paths of the reports, and the next commands.

Run `python tools/demo_end.py EXPERIMENT ...`. The answer is the first part of each report.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from serverdyno import report
from serverdyno.report.model import Report
from serverdyno.report.views.files import PAGE
from serverdyno.store.experiment import Experiment

NEXT = "dyno plan check plans/demo-three-web-servers.toml, then a plan of your own: docs/plan.md"


def main() -> None:
    width = min(100, shutil.get_terminal_size().columns)
    folders = [Path(name) for name in sys.argv[1:]]
    print("\n" + "=" * width)
    for folder in folders:
        built = report.build(Experiment.open(folder))
        for line in _lines(built, folder):
            print(textwrap.fill(line, width, subsequent_indent="  "))
        print()
    print(f"What next: {NEXT}")


def _lines(built: Report, folder: Path) -> Iterator[str]:
    yield built.title
    yield built.answer.verdict
    yield from (f"- {label}: {text}" for label, text in built.answer.lines)
    yield f"Report: {folder / 'report' / PAGE}"


if __name__ == "__main__":
    main()
