"""Every total reconciles: each table agrees with the records, and with the other tables of the report."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import pytest

from serverdyno.report.build import build_from
from serverdyno.report.figures.cost import cost
from serverdyno.report.figures.raw import RawTable
from serverdyno.report.model import Report, Table
from support import synthetic_files
from support.synthetic_experiment import Shape, experiment, with_error


@pytest.fixture(scope="module", params=["web", "files"])
def report(request: pytest.FixtureRequest) -> Report:
    """Return a report on web servers or on file servers, with errors of two sides and a client that left."""
    if request.param == "web":
        source = experiment({"apache": Shape(2100), "nginx": Shape(3900)})
    else:
        shape = synthetic_files.FileShape(200.0)
        source = synthetic_files.experiment({"samba": shape, "ksmbd": shape})
    records = list(source.records)
    records[1] = with_error(records[1], "server", 3, left=1)
    records[2] = with_error(records[2], "network", 2)
    return build_from(replace(source, records=records))


def table(report: Report, key: str) -> Table:
    return next(found for found in report.tables if found.key == key)


def column(found: Table, label: str, unit: str = "") -> list[int]:
    """Return the whole numbers of a column."""
    place = next(
        at for at, head in enumerate(found.columns) if head.label == label and (not unit or unit in head.unit)
    )
    return [int(row[place].text.replace(",", "")) for row in found.rows]


def raw(report: Report, name: str) -> RawTable:
    return next(found for found in report.raw if found.name == name)


def values(found: RawTable, name: str) -> list[float]:
    place = found.columns.index(name)
    return [float(row[place] or 0) for row in found.rows]


def by_level(found: RawTable, name: str, keep: Iterable[int] | None = None) -> Counter[tuple[object, object]]:
    """Return the sums of a column by run and level, over the rows in `keep` if it is given."""
    run, level, value = (found.columns.index(each) for each in ("run", "level", name))
    sums: Counter[tuple[object, object]] = Counter()
    for place, row in enumerate(found.rows):
        if keep is None or place in keep:
            sums[row[run], row[level]] += int(float(str(row[value])))
    return sums


def test_errors_are_the_same_in_every_table_in_the_finding_and_in_the_records(report: Report) -> None:
    recorded = sum(row.count for record in report.results.used for row in record.errors)
    assert recorded == 5
    errors = table(report, "errors")
    assert sum(column(errors, "All errors")) == recorded
    assert sum(sum(column(errors, side)) for side in ("Server", "Network", "Client", "Check")) == recorded
    assert sum(column(table(report, "peaks"), "Errors")) == recorded
    assert sum(values(raw(report, "errors"), "count")) == recorded
    said = next(finding.claim for finding in report.findings if finding.topic == "Errors")
    assert int(re.findall(r"(\d+) errors", said)[0]) == recorded


def test_clients_that_left_are_the_same_in_every_table(report: Report) -> None:
    left = sum(row.left_at_s is not None for record in report.results.used for row in record.by_client)
    assert left == 1
    assert sum(column(table(report, "errors"), "Clients left")) == left
    assert sum(values(raw(report, "curves"), "clients_left")) == left


def test_operations_of_a_level_are_those_of_its_classes_its_clients_and_its_histogram(report: Report) -> None:
    levels, classes = raw(report, "levels"), raw(report, "operations")
    assert by_level(classes, "count") == by_level(levels, "operations")
    for record in report.results.used:
        assert sum(row.operations for row in record.by_client) == record.operations
    recorded = sum(record.operations for record in report.results.used)
    assert (
        sum(column(table(report, "response"), "Responses")) == recorded == sum(values(levels, "operations"))
    )


def test_seconds_add_up_to_all_operations_of_the_level_ramps_included(report: Report) -> None:
    seconds = by_level(raw(report, "seconds"), "operations")
    recorded = {
        (record.run, record.level): sum(row.operations for row in record.by_second)
        for record in report.results.used
    }
    assert dict(seconds) == {key: count for key, count in recorded.items() if count}


def test_classes_at_the_peak_add_up_to_the_responses_of_that_point(report: Report) -> None:
    response, classes = table(report, "response"), table(report, "operations")
    for result in report.results.configurations:
        assert result.peak is not None
        counted = sum(
            count
            for row, count in zip(classes.rows, column(classes, "Count"), strict=True)
            if row[0].text == result.name
        )
        [responses] = [
            count
            for row, count in zip(response.rows, column(response, "Responses"), strict=True)
            if (row[0].text, row[1].text) == (result.name, f"{result.peak.clients:,}")
        ]
        assert counted == responses


def test_tests_that_finished_are_the_same_in_the_table_of_runs_the_summary_and_the_answer(
    report: Report,
) -> None:
    finished = [int(row[3].text.split(" of ")[0]) for row in table(report, "runs").rows]
    count = f"{sum(finished):,}"
    assert sum(finished) == len(report.results.used)
    assert f"All {count} load levels completed." in report.summary.text[0]
    assert f"all {count} load levels completed" in report.answer.sure


def test_the_histograms_of_the_tables_hold_as_many_samples_as_the_level_has_operations(
    report: Report,
) -> None:
    found = raw(report, "histograms")
    run, level, samples = (found.columns.index(each) for each in ("run", "level", "samples"))
    counted = {(row[run], row[level]): row[samples] for row in found.rows}
    assert counted == {
        (record.run, record.level): record.operations for record in report.results.used if record.operations
    }


def test_flushes_are_the_same_in_durability_and_in_the_classes_of_operation(report: Report) -> None:
    if not report.results.promises:
        pytest.skip("web servers flush nothing")
    flushed = sum(
        row.count for record in report.results.used for row in record.by_operation if row.operation == "flush"
    )
    assert sum(column(table(report, "durability"), "Flushes", "answered")) == flushed


def test_cpu_time_per_operation_is_all_time_over_all_operations() -> None:
    # A repetition with a tenth of the operations has a tenth of the weight.
    [first, second, *_] = [
        record for record in experiment({"apache": Shape(2000)}).records if record.level == 1
    ]
    few = replace(first, operations=100, server_cpu_s=0.02)
    many = replace(second, operations=1000, server_cpu_s=0.08)
    found = cost([few, many], fewest_cpus=1).server_cpu_us
    assert found is not None
    assert found.mean == pytest.approx(0.1e6 / 1100)
    assert (found.minimum, found.maximum) == pytest.approx((80.0, 200.0))
