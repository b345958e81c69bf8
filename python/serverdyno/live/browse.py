"""The page of `dyno open`, which shows experiments side by side."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from serverdyno.errors import DynoError
from serverdyno.live import pages
from serverdyno.live.feed import level_event
from serverdyno.plan.axis import axis_of
from serverdyno.store.experiment import PAGE, Experiment

MOST_REPORT_BYTES = 256 << 20


def application(folders: Sequence[Path]) -> Starlette:
    """Return an application with the page, the experiments as JSON, and each report by its number."""

    async def experiments(_request: Request) -> Response:
        rows = [{**summary(folder), "number": number} for number, folder in enumerate(folders)]
        return JSONResponse(rows, headers=pages.SAFE)

    async def report(request: Request) -> Response:
        number = request.path_params["number"]
        if number < len(folders):
            try:
                with Experiment.open(folders[number]) as opened:
                    found = opened.report_folder().read(PAGE, MOST_REPORT_BYTES)
                return Response(found, media_type="text/html", headers=pages.OF_REPORT)
            except DynoError:
                pass
        return PlainTextResponse("This report does not exist.\n", 404, headers=pages.SAFE)

    return pages.application(
        "browse.html", [Route("/experiments.json", experiments), Route("/reports/{number:int}", report)]
    )


def summary(folder: Path) -> dict[str, Any]:
    """Return the page's data of one experiment; only `folder` and `problem` if the experiment can't be read."""
    try:
        with Experiment.open(folder) as opened:
            return _read(opened, f"{folder}")
    except DynoError as error:
        return {"folder": f"{folder}", "problem": f"{error}"}


def _read(opened: Experiment, folder: str) -> dict[str, Any]:
    head, terms = opened.head, opened.head.suite.terms
    axis = axis_of(head.suite.axis, terms.operation)
    records = [record for record in opened.readable_levels()[0] if record.void is None]
    by_configuration: dict[str, dict[int, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    first = {level.index for level in head.of_suite(head.suite).levels if level.step is None}
    for record in (record for record in records if record.level in first):
        by_configuration[record.configuration][record.level].append(
            level_event(record, axis, terms.throughput(record))
        )
    return {
        "folder": folder,
        "created": f"{head.created:%Y-%m-%d %H:%M}",
        "plan": head.plan.name,
        "title": head.plan.title,
        "suite": ", ".join(suite.name for suite in head.suites),
        "unit": terms.unit,
        "axis": axis.title,
        "levels": len(records),
        "levels_planned": len(head.order) * len(head.levels),
        "has_report": opened.report_folder().exists(PAGE),
        "curves": [
            {"configuration": name, "points": [_point(rows) for _, rows in sorted(levels.items())]}
            for name, levels in by_configuration.items()
        ],
    }


def _point(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a load level's mean, lowest and highest throughput, the median of the repetitions' p99, and the errors."""
    throughput = [row["throughput"] for row in rows]
    p99_ms = [row["p99_ms"] for row in rows if row["p99_ms"] is not None]
    return {
        "level": rows[0]["level"],
        "repetitions": len(rows),
        "mean": fmean(throughput),
        "lowest": min(throughput),
        "highest": max(throughput),
        "p99_ms": median(p99_ms) if p99_ms else None,
        "errors": sum(row["errors"] for row in rows),
    }
