"""Write every view of many reports into a folder, so that two versions of Serverdyno can be compared by diff.

`python tools/report_snapshot.py FOLDER [EXPERIMENT ...]` uses the synthetic experiments of the tests, and the given
ones. Run it with both versions, then `diff -r` the folders: a pure refactoring shows no difference. PDF is left out,
because it is typeset from the same document as `report.json`.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rich.console import Console

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from serverdyno import report  # noqa: E402
from serverdyno.report.build import build_from  # noqa: E402
from serverdyno.report.model import Report  # noqa: E402
from serverdyno.report.source import Source  # noqa: E402
from serverdyno.report.views import csv, document, markdown, text  # noqa: E402
from serverdyno.store.experiment import Experiment  # noqa: E402
from serverdyno.store.folder import Folder  # noqa: E402
from support import synthetic_experiment as web  # noqa: E402
from support import synthetic_files as files  # noqa: E402


def main() -> None:
    """Write a folder per report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("experiments", type=Path, nargs="*")
    arguments = parser.parse_args()
    for name, source in made_up():
        write(build_from(source), arguments.folder / name)
    for experiment in arguments.experiments:
        write(report.build(Experiment.open(experiment)), arguments.folder / experiment.name)


def made_up() -> Iterator[tuple[str, Source]]:
    """Yield synthetic experiments: web and file servers; complete, partial, with errors, limited, with many sides."""
    three = {"apache": web.Shape(2000), "nginx": web.Shape(3000, noise=0.005), "lighttpd": web.Shape(2900)}
    whole = web.experiment(three)
    yield "web", whole
    yield "web-two-repetitions", web.experiment(three, repetitions=2, order="sequential")
    yield "web-one-repetition", web.experiment({"nginx": web.Shape(3000)}, repetitions=1, scale=1.0)
    yield "web-limited", web.experiment(three, url="http://127.0.0.1:8080/", max_rate_per_s=2500)
    yield "web-generator-limited", web.experiment({"a": web.Shape(2000, waiting=0.3), "b": web.Shape(2100)})
    yield "web-not-measured", web.experiment({"a": web.Shape(2000, waiting=None), "b": web.Shape(2100)})
    yield "web-many", web.experiment({f"s{place}": web.Shape(1000 + 50 * place) for place in range(10)})
    yield "web-rising", web.experiment({"a": web.Shape(2000, knee=32), "b": web.Shape(2100, knee=32)})
    yield "web-partial", replace(whole, records=whole.records[:17], damaged=("mix-03.parquet: no footer",))
    failing = [web.with_error(row, "server", 7, left=min(2, row.clients)) for row in whole.records]
    yield "web-errors", replace(whole, records=failing)
    yield "web-nothing", replace(whole, records=[web.without_success(row) for row in whole.records])
    strict = {"samba-strict": files.FileShape(400), "samba": files.FileShape(700, syncs_a_flush=0.0)}
    of_files = files.experiment(strict)
    yield "files", of_files
    yield "files-unknown", files.experiment({"samba": files.FileShape(400, syncs_a_flush=None, layers=())})
    memory = files.FileShape(500, layers=(("tmpfs", "rw"),))
    yield "files-memory", files.experiment({"a": memory, "b": files.FileShape(400)}, repetitions=2)
    leaving = [files.without_clients(row, min(2, row.clients)) for row in of_files.records]
    yield "files-left", replace(of_files, records=leaving)


DRAWN = {"web", "files"}
"""The reports whose charts and pages are written; only these, because drawing takes most of the time."""


def write(made: Report, folder: Path) -> None:
    """Write all views of one report."""
    (folder / "tables").mkdir(parents=True)
    if folder.name in DRAWN:
        report.write_report(made, Folder.open(folder))
    for table in made.raw:
        (folder / "tables" / f"{table.name}.csv").write_text(csv.text(table), newline="")
    (folder / "report.json").write_bytes(document.ReportDocument(made).as_json())
    (folder / "report.md").write_text(markdown.text(made))
    for width in (80, 200):
        screen = io.StringIO()
        console = Console(file=screen, width=width, force_terminal=False)
        text.render(made, console)
        if made.comparisons:
            text.render_compared(report.compare([made]), console)
        (folder / f"terminal-{width}.txt").write_text(screen.getvalue())


if __name__ == "__main__":
    main()
