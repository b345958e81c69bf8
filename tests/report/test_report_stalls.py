"""A report's statements on clients and seconds without a completed operation, which means and percentiles hide."""

from __future__ import annotations

from dataclasses import replace

import pytest

from serverdyno.analysis import stalls
from serverdyno.analysis.trust import Mark
from serverdyno.report.build import build_from
from serverdyno.report.model import Report
from serverdyno.report.views import document
from serverdyno.store.records import UNANSWERED, ErrorRow, LevelRecord
from support.synthetic_experiment import Shape, experiment, without_success

TWO = {"apache": Shape(2000), "nginx": Shape(3000)}


def starved(record: LevelRecord, clients: int) -> LevelRecord:
    """Return the record with all operations done by the clients after the first `clients`."""
    served = record.clients - clients
    rows = [
        replace(row, operations=0 if row.client < clients else record.operations // served)
        for row in record.by_client
    ]
    rest = record.operations - sum(row.operations for row in rows)
    return replace(record, by_client=[*rows[:-1], replace(rows[-1], operations=rows[-1].operations + rest)])


def idle(record: LevelRecord, seconds: range) -> LevelRecord:
    """Return the record without a completed operation in these seconds, as if all clients were thinking."""
    return replace(record, by_second=[row for row in record.by_second if row.second not in seconds])


def stopped(record: LevelRecord, seconds: range) -> LevelRecord:
    """Return the record without a completed operation in these seconds, as if all clients waited for an answer."""
    longest_s = record.under_way_longest_s or float(len(seconds))
    return replace(idle(record, seconds), under_way_longest_s=longest_s)


@pytest.fixture(scope="module")
def report() -> Report:
    """Return a report on Apache, which serves 2 of 16 clients, and nginx, which stalls for 10 s in repetition 2."""
    source = experiment(TWO, scale=0.1)

    def changed(record: LevelRecord) -> LevelRecord:
        if record.configuration == "apache" and record.clients == 16:
            return starved(record, 14)
        if record.configuration == "nginx" and record.clients == 24 and record.repetition == 2:
            return stopped(record, range(12, 22))
        return record

    return build_from(replace(source, records=[changed(record) for record in source.records]))


def marked(report: Report, mark: Mark) -> set[tuple[str, int]]:
    return {
        (result.name, level.clients)
        for result in report.results.configurations
        for level in result.finished
        if mark in level.marks
    }


def test_clients_without_an_answer_are_marked_and_named_at_the_head(report: Report) -> None:
    assert marked(report, Mark.STARVED) == {("apache", 16)}
    [warning] = [each for each in report.warnings if "marked C" in each]
    assert "apache with 16 clients (up to 14 of 16)" in warning
    assert "All planned clients took part" not in " ".join(table.basis for table in report.tables)
    [errors] = [finding for finding in report.findings if finding.topic == "Errors"]
    assert "completed no request (C)" in errors.claim
    [peak] = [each for each in report.findings if each.topic == "Peak" and each.claim.startswith("apache")]
    assert "with 16 clients, up to 14 of them without a completed request" in peak.claim
    assert "with 16 clients, up to 14 of them without a completed request" in " ".join(report.summary.text)


def test_seconds_without_a_success_are_a_finding_with_their_numbers(report: Report) -> None:
    assert marked(report, Mark.STALLED) == {("nginx", 24)}
    [finding] = [finding for finding in report.findings if finding.topic == "Stall"]
    assert "nginx: 10 seconds with 24 clients (repetition 2: 12 to 21)" in finding.claim
    [warning] = [each for each in report.warnings if "marked T" in each]
    assert "nginx with 24 clients in repetition 2 (10 seconds: 12 to 21)" in warning


def test_seconds_in_which_all_clients_think_are_no_stall() -> None:
    # As in docs/sessions.md: all clients think for 2 s, and no request takes a millisecond.
    source = experiment(TWO, scale=0.1)
    records = [replace(idle(record, range(12, 14)), under_way_longest_s=0.0) for record in source.records]
    assert marked(build_from(replace(source, records=records)), Mark.STALLED) == set()


def test_fairness_to_clients_stands_in_the_summary_of_web_suites(report: Report) -> None:
    [table] = report.summary.tables
    place = [column.label for column in table.columns].index("Fairness")
    apache, nginx = (row[place].text for row in table.rows)
    assert apache == "0.125"
    assert nginx == "1.000"


def test_programs_read_the_same_in_the_document(report: Report) -> None:
    apache, nginx = document.ReportDocument.of(report).configurations
    assert [point.clients_starved for point in apache.levels] == [0, 0, 14, 0, 0]
    assert [point.stalled_seconds for point in nginx.levels] == [{}, {}, {}, {2: tuple(range(12, 22))}, {}]
    curves = next(table for table in report.raw if table.name == "curves")
    place = curves.columns.index("seconds_without_completion")
    assert sum(int(row[place] or 0) for row in curves.rows) == 10


def test_a_whole_experiment_is_said_to_have_served_all() -> None:
    report = build_from(experiment(TWO, repetitions=1))
    assert not marked(report, Mark.STARVED) | marked(report, Mark.STALLED)
    assert not [finding for finding in report.findings if finding.topic == "Stall"]
    assert "All planned clients took part" in report.tables[0].basis


@pytest.mark.parametrize(("fault", "waited"), [("bad_status", False), ("response_timeout", True)])
def test_clients_with_nothing_but_failures_have_not_waited(fault: str, waited: bool) -> None:
    def failing(record: LevelRecord) -> LevelRecord:
        rows = [replace(row, errors=0 if row.operations else 9) for row in starved(record, 1).by_client]
        found = [ErrorRow("server", fault, 9, 9, "status 500")]
        return replace(record, by_client=rows, errors=found)

    source = experiment(TWO, repetitions=1)
    made = build_from(replace(source, records=[failing(record) for record in source.records]))
    [errors] = [finding.claim for finding in made.findings if finding.topic == "Errors"]
    assert ("clients waited for the whole window" in errors) is waited
    assert ("each request of some clients failed (C)" in errors) is not waited
    [caveat] = [each for each in made.warnings if "marked C" in each]
    assert ("but all their requests in the window failed" in caveat) is not waited


def test_clients_that_left_are_not_said_to_have_waited() -> None:
    source = experiment(TWO, repetitions=1)
    report = build_from(replace(source, records=[without_success(record) for record in source.records]))
    assert not marked(report, Mark.STARVED)


def never_began(record: LevelRecord, clients: int) -> LevelRecord:
    """Return the record without operations of the first clients, which the server did not admit."""
    rows = [
        replace(row, operations=0, left_at_s=0.0, errors=1) if row.client < clients else row
        for row in starved(record, min(clients, record.clients - 1)).by_client
    ]
    timeouts = ErrorRow("server", "response_timeout", clients, 0, "no answer within 30 s")
    return replace(record, by_client=rows, errors=[timeouts])


def test_clients_that_could_not_be_made_ready_have_not_left() -> None:
    source = experiment(TWO, repetitions=1)
    records = [
        never_began(record, 2) if (record.configuration, record.clients) == ("nginx", 16) else record
        for record in source.records
    ]
    report = build_from(replace(source, records=records))
    assert marked(report, Mark.CLIENTS_LEFT) == {("nginx", 16)}
    [errors] = [finding for finding in report.findings if finding.topic == "Errors"]
    assert errors.claim.startswith(
        "2 errors (2 on the server side); 2 clients could not begin. 2 of the errors: no answer"
    )
    [warning] = [each for each in report.warnings if "marked L" in each]
    assert (
        "nginx with 16 clients (2 of 16 lost). Counts are sums over the repetitions. The lost clients could not log on"
        in warning
    )


def test_a_level_in_which_no_client_could_be_made_ready_has_no_figures() -> None:
    source = experiment(TWO, repetitions=1)
    records = [
        never_began(record, 16) if (record.configuration, record.clients) == ("nginx", 16) else record
        for record in source.records
    ]
    report = build_from(replace(source, records=records))
    assert [level.clients for level in report.results.configurations[1].finished] == [1, 8, 24, 32]
    [warning] = [each for each in report.warnings if each.startswith("The figures leave out")]
    assert "no client could be prepared: the server let no client log on or create its workspace" in warning


def test_operations_in_flight_at_the_end_of_a_window_are_named_as_such_and_not_as_errors() -> None:
    source = experiment(TWO, scale=0.1)

    def changed(record: LevelRecord) -> LevelRecord:
        if (record.configuration, record.clients, record.repetition) != ("nginx", 24, 2):
            return record
        last = round(record.window_closes_s)
        row = ErrorRow("server", UNANSWERED, 24, 0, "connected, but the response did not end in time")
        in_flight = replace(record, errors=[row], under_way_at_close=24, under_way_longest_s=10.04)
        return stopped(in_flight, range(last - 4, last + 9))

    report = build_from(replace(source, records=[changed(record) for record in source.records]))
    assert not marked(report, Mark.ERRORS)
    claims = {finding.topic: finding.claim for finding in report.findings}
    assert claims["Errors"] == (
        "No request failed and no client left. 24 requests were in flight when the window closed and got no answer in "
        "time (not counted as errors)."
    )
    assert "), with 24 requests in flight when the window closed, the longest for 10.0 s." in claims["Stall"]


@pytest.mark.parametrize(
    ("completed", "found"),
    [
        ({0: 50, 1: 50, 2: 50, 3: 50, 4: 50, 5: 50}, ()),
        ({0: 50, 1: 50, 4: 50, 5: 50}, (2, 3)),
        ({0: 50}, (1, 2, 3, 4)),  # it stopped before the window
        ({1: 9, 2: 9, 4: 9}, ()),  # too few to exclude that an empty second is chance
        ({1: 4, 4: 4}, ()),
        ({0: 4, 4: 4}, (1, 2, 3)),  # three in a row are empty
        ({}, ()),  # it never served, so nothing stopped
        ({1: 50, 2: 50, 3: 50, 4: 50}, ()),  # nothing in the ramps
    ],
)
def test_only_whole_seconds_of_the_window_count(completed: dict[int, int], found: tuple[int, ...]) -> None:
    assert stalls.stalled(completed, ramp_up_s=0.5, window_s=4.9) == found


def slower_later(record: LevelRecord) -> LevelRecord:
    """Return the record of a server that is a third slower in the second half."""
    middle_s = record.ramp_up_s + record.window_s / 2
    rows = [
        replace(row, operations=row.operations * 2 // 3) if row.second >= middle_s else row
        for row in record.by_second
    ]
    return replace(record, by_second=rows, operations_total=sum(row.operations for row in rows))


def test_a_window_that_was_not_steady_is_marked_and_named_at_the_head() -> None:
    source = experiment(TWO, scale=0.1)
    records = [
        slower_later(record)
        if (record.configuration, record.clients, record.repetition) == ("nginx", 24, 2)
        else record
        for record in source.records
    ]
    report = build_from(replace(source, records=records))
    assert marked(report, Mark.DRIFTING) == {("nginx", 24)}
    [warning] = [each for each in report.warnings if "marked D" in each]
    assert "nginx with 24 clients in repetition 2 (\u221233" in warning
    steady = build_from(source)
    assert not marked(steady, Mark.DRIFTING)
