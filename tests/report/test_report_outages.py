"""Reports of servers that go away: time without service and data come first, whatever the throughput."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

import jsonschema
import pytest
from rich.console import Console

from serverdyno.analysis.improvement import Verdict
from serverdyno.analysis.slowdown import Slowdown
from serverdyno.plan import expand, suites
from serverdyno.report.build import build_from
from serverdyno.report.comparison import compare
from serverdyno.report.model import Report
from serverdyno.report.source import Source
from serverdyno.report.subjects.outages import figures
from serverdyno.report.views import comparison, document, text
from serverdyno.store.records import ErrorRow, LevelRecord, OutageRow
from support.places import ROOT
from support.synthetic_files import FileShape, experiment

SCHEMA = ROOT / "docs" / "report.schema.json"
CUT_S = 4.0
SUITE = suites.load("quick-failover").model_copy(update={"clients": [8, 16]})
LEVELS = expand.levels(SUITE, 1.0)


@dataclass(frozen=True)
class Shape:
    """A server that is back after `away_s`; each client of a level follows 10 ms after the previous one."""

    away_s: float
    went_on: bool = True
    never_back: int = 0
    blocks_lost: int = 0
    wrong_reads: int = 0
    mbit_s: float = 100.0


def source(shapes: Mapping[str, Shape], repetitions: int = 3) -> Source:
    """Return an experiment of the suite quick-failover with these throughputs and outages."""
    made = experiment(
        {name: FileShape(shape.mbit_s) for name, shape in shapes.items()}, repetitions=repetitions
    )
    head = made.head.model_copy(update={"suites": [SUITE], "levels": LEVELS})
    stand_for = dict(zip((4, 5), LEVELS, strict=True))  # of 8 and 16 clients
    records = [
        _with_outages(replace(record, level=level.index, name=level.name), shapes)
        for record in made.records
        if (level := stand_for.get(record.level)) is not None
    ]
    return replace(made, head=head, records=records)


def _with_outages(record: LevelRecord, shapes: Mapping[str, Shape]) -> LevelRecord:
    shape = shapes[record.configuration]
    late_s = 0.001 * record.repetition
    back = range(record.clients - shape.never_back)
    errors = (
        [ErrorRow("check", "stale_content", shape.wrong_reads, 0, "")] if shape.wrong_reads else record.errors
    )
    return replace(
        record,
        errors=errors,
        cut_at_s=CUT_S,
        outages=[
            OutageRow(number, CUT_S, CUT_S + shape.away_s + late_s + 0.01 * number, not shape.went_on)
            for number in back
        ],
        handles_asked=record.clients,
        handles_granted=record.clients,
        handles_persistent=0,
        handles_regained=record.clients if shape.went_on else 0,
        handles_lost=0 if shape.went_on else record.clients,
        calls_sent_again=0,
        blocks_read_back=64 * record.clients,
        blocks_lost=shape.blocks_lost,
        blocks_wrong=0,
        unflushed_lost=0,
    )


def built(shapes: Mapping[str, Shape], repetitions: int = 3) -> Report:
    return build_from(source(shapes, repetitions))


QUICK = {"slow-disk": Shape(1.0, mbit_s=10.0), "fast-disk": Shape(3.0, went_on=False, mbit_s=500.0)}


def test_time_without_service_ranks_and_not_throughput() -> None:
    report = built(QUICK)
    assert report.answer.verdict == (
        "Clients were served again after 1.06 s with slow-disk and 3.06 s with fast-disk (median). The slowest client "
        "waited 3.15 s (fast-disk). No flushed data were lost: all 9,216 blocks that were read back are correct."
    )
    said = dict(report.answer.lines)
    assert said["Open files"] == ("Clients that kept their open file: slow-disk 72 of 72; fast-disk 0 of 72.")
    assert said["Slowest client"] == "slow-disk: 1.15 s; fast-disk: 3.15 s."
    assert said["Differences"] == "slow-disk is proven faster than fast-disk with 8 and 16 clients."
    assert "the server is restarted after 1 s" in said["Each outage"]
    assert "What limits the speed" not in said
    (bars,) = report.answer.figures
    assert [line.name for line in bars.panels[0].series] == ["slow-disk", "fast-disk"]
    assert report.summary.tables[0].key == "outages"
    assert [each.topic for each in report.findings][:2] == ["Outage", "Outage"]
    assert not any("peaked" in each.claim for each in report.findings)


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        (Shape(1.0, blocks_lost=2), "Data were lost. b: 12 flushed blocks lost."),
        (Shape(1.0, wrong_reads=1), "Data were lost. b: 6 reads that returned wrong data."),
    ],
)
def test_wrong_data_are_said_first_and_nobody_is_called_faster(shape: Shape, said: str) -> None:
    report = built({"a": Shape(3.0), "b": shape})
    assert report.answer.verdict.startswith(said)
    compared = compare([report])
    assert (compared.verdict, compared.slowdown) == (Verdict.NOT_COMPARABLE, Slowdown.CANT_TELL)
    assert compared.findings[0].claim.startswith(said)


def test_clients_that_never_came_back_are_slower_than_all_others() -> None:
    report = built({"a": Shape(1.0), "b": Shape(1.0, never_back=1), "c": Shape(1.0, never_back=8)})
    verdict = report.answer.verdict
    assert "6 of 72 clients of b were never served again." in verdict
    back = {(row[0].text, row[1].text): row for row in report.summary.tables[0].rows}
    assert [cell.text for cell in back["c", "8"][3:7]] == ["0 of 24", "–", "–", "–"]  # noqa: RUF001
    assert [cell.text for cell in back["b", "8"][3:7]] == ["21 of 24", "1.04", "–", "–"]  # noqa: RUF001
    nobody = built({"a": Shape(1.0), "b": Shape(1.0, never_back=8)}, repetitions=1).source.records
    assert figures("b", [r for r in nobody if r.configuration == "b" and r.clients == 8]).median_s is None


def test_a_client_is_back_when_it_is_first_served_after_the_cut() -> None:
    made = source({"a": Shape(1.0)}, repetitions=1).records[0]
    rows = [OutageRow(0, at, at, session_lost=False) for at in (CUT_S - 1, CUT_S + 5, CUT_S + 2)]
    assert figures("a", [replace(made, outages=rows)]).back_s == (2.0,)


def test_no_difference_below_the_resolution_of_the_times_is_claimed() -> None:
    report = built({"a": Shape(1.0), "b": Shape(1.09)})
    assert dict(report.answer.lines)["Differences"] == "No difference between the medians is proven."


def test_compare_and_its_documents_are_of_the_times_without_service() -> None:
    report = built(QUICK)
    compared = compare([report])
    assert (compared.verdict, compared.slowdown) == (Verdict.SLOWER, Slowdown.SLOWER)
    found = json.loads(comparison.as_json(compared))
    assert found["comparisons"] == []
    assert [(row["base"], row["other"], row["clients"]) for row in found["outages"]] == [
        ("slow-disk", "fast-disk", 8),
        ("slow-disk", "fast-disk", 16),
    ]
    first = found["outages"][0]
    assert first["base_s"] == pytest.approx(1.037, abs=0.001)
    assert first["percent"] == pytest.approx((first["other_s"] / first["base_s"] - 1) * 100)
    assert first["low_percent"] < first["percent"] < first["high_percent"]
    assert "time without service: " in comparison.as_markdown(compared)
    again = compare([report, built(QUICK)])
    assert again.verdict is Verdict.NOT_SEPARATED
    assert {gap.other for gap in again.outages} == {"slow-disk (second)", "fast-disk (second)"}


def test_the_document_has_what_each_outage_cost() -> None:
    found = json.loads(document.ReportDocument.of(built(QUICK)).as_json())
    jsonschema.validate(found, json.loads(SCHEMA.read_text(encoding="utf-8")))
    outages = found["configurations"][1]["outages"]
    assert (outages["clients"], outages["never_back"], outages["went_on"]) == (72, 0, 0)
    assert outages["back_median_s"] == pytest.approx(3.057, abs=0.001)
    assert (outages["blocks_read_back"], outages["blocks_lost"]) == (4608, 0)


def test_the_terminal_begins_with_service_and_data() -> None:
    screen = io.StringIO()
    text.render(built(QUICK), Console(file=screen, width=100))
    said = screen.getvalue()
    assert said.startswith("Clients were served again after 1.06 s with slow-disk")
    assert "Cost of the outages" in said and "Time without service compared" in said


def test_of_one_configuration_nothing_is_compared() -> None:
    report = built({"alone": Shape(2.0)}, repetitions=1)
    assert report.answer.verdict.startswith("Clients were served again after 2.06 s with alone (median). ")
    assert report.answer.figures == ()
    assert [table.key for table in report.summary.tables] == ["outages", "handles"]
