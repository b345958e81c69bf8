"""A report's statements on a complete or partial experiment."""

import importlib
import pkgutil
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from serverdyno.report import subjects
from serverdyno.report.build import build_from
from serverdyno.report.figures import histograms
from serverdyno.report.model import Report, Table
from serverdyno.store.note import RunNote
from serverdyno.store.records import LevelRecord
from support.report_tables import report_of, table
from support.synthetic_experiment import Shape, experiment, histogram, with_error, without_success

TWO = {"apache": Shape(2000), "nginx": Shape(3000, noise=0.005)}


@cache
def of_two() -> Report:
    return report_of(experiment(TWO))


def texts(table: Table) -> list[list[str]]:
    return [[cell.text for cell in row] for row in table.rows]


def test_every_subject_is_in_both_orders_of_the_builder_once() -> None:
    builder = importlib.import_module("serverdyno.report.build")
    modules = [
        importlib.import_module(f"{subjects.__name__}.{found.name}")
        for found in pkgutil.iter_modules(subjects.__path__)
    ]
    names = sorted(module.__name__ for module in modules if hasattr(module, "build"))
    assert sorted(subject.__name__ for subject in builder.SUBJECTS) == names
    assert sorted(subject.__name__ for subject in builder.FINDINGS) == names


def bases(report: Report) -> list[str]:
    """Return the basis of each section except the testbed's diagram, which shows no measurement."""
    drawn = [figure for figure in report.figures if figure.kind != "diagram"]
    return [table.basis for table in report.tables] + [figure.basis for figure in drawn]


def claims(report: Report) -> str:
    return " ".join(finding.claim for finding in report.findings)


def test_the_mean_over_repetitions_is_what_the_table_shows_and_the_peak_is_bold() -> None:
    report = of_two()
    throughput = table(report, "throughput")
    apache = report.results.configurations[0]
    means = np.nanmean(apache.runs.throughput, axis=0)
    assert [row[2].text for row in throughput.rows] == [f"{mean:,.0f}" for mean in means]
    assert [row[2].strong for row in throughput.rows] == [mean == means.max() for mean in means]


def test_throughput_is_successes_in_the_window_over_the_window() -> None:
    source = experiment({"apache": Shape(2000)}, repetitions=1)
    found = report_of(source).results.configurations[0]
    assert found.runs.throughput[0].tolist() == [row.operations / row.window_s for row in source.records]


def test_a_faster_server_is_called_faster_with_its_interval_and_its_evidence() -> None:
    report = of_two()
    finding = next(finding for finding in report.findings if "faster" in finding.claim)
    assert finding.claim.startswith("nginx is faster than apache in overall average: +")
    assert "95 % interval" in finding.claim
    assert (
        "3 repetitions in pairs; over 5 load levels; verdicts corrected for 2 comparisons of averages and peaks"
        in finding.evidence
    )
    assert sum(finding.topic == "Comparison" for finding in report.findings) == 1


def test_no_difference_shown_is_a_finding() -> None:
    report = report_of(experiment({"a": Shape(2000, noise=0.05), "b": Shape(2005, noise=0.05)}))
    assert "No difference shown between b and a in overall average" in claims(report)


def test_one_repetition_is_said_to_be_too_few() -> None:
    report = report_of(experiment(TWO, repetitions=1))
    assert "1 repetition can't show whether the difference repeats" in claims(report)
    assert report.answer.verdict.startswith("No winner: one repetition")


def test_a_generator_limited_peak_is_never_reported_without_the_mark() -> None:
    report = report_of(experiment({"apache": Shape(2000), "nginx": Shape(3000, waiting=0.2)}))
    peak = table(report, "peaks").rows[1][1]
    assert "G" in peak.marks
    assert any(note.startswith("G generator-limited") for note in table(report, "peaks").notes)
    sentences = [*report.summary.text, *(finding.claim for finding in report.findings)]
    for sentence in sentences:
        if "nginx" in sentence and "peak" in sentence.lower() and "requests/s" in sentence:
            assert "generator-limited" in sentence
    assert any(
        "generator-limited" in point.limited_by
        for figure in report.figures
        for panel in figure.panels
        for line in panel.series
        for point in line.points
    )


def test_an_unmeasured_generator_and_an_unknown_server_cpu_are_said_and_not_made_up() -> None:
    source = experiment(
        {"external": Shape(900, server_cpu_us=None, waiting=None)}, url="http://127.0.0.1:8080/"
    )
    report = report_of(source)
    assert "Whether the generator limited any of 5 load levels was not measured" in claims(report)
    assert {row[2].text for row in table(report, "costs").rows} == {"–"}  # noqa: RUF001
    assert [panel.title for figure in report.figures if figure.key == "cpu" for panel in figure.panels] == [
        "Generator"
    ]
    assert any(
        "The CPU time of external could not be measured" in text
        for section in report.sections
        for text in section.text
    )


def test_errors_are_counted_by_side_and_clients_that_left_are_named() -> None:
    source = experiment(TWO)
    hit = source.records[1]
    report = report_of(source, lambda row: with_error(row, "check", 7, left=3) if row is hit else row)
    assert texts(table(report, "errors")) == [["apache", "8", "5", "3", "0", "0", "0", "7", "7", "7"]]
    assert "7 errors (7 in checks); 3 clients left early." in claims(report)
    assert all("Clients left at 1 of 10 load levels" in table.basis for table in report.tables)


def test_no_error_is_a_finding_too() -> None:
    report = of_two()
    assert "No request failed and no client left." in claims(report)
    assert table(report, "errors").rows == ()


def test_an_unfinished_experiment_reports_what_is_there_and_says_what_is_not() -> None:
    source = experiment(TWO)
    report = build_from(replace(source, records=source.records[:8]))
    assert any(warning.startswith("Unfinished: 8 of 30 planned load levels") for warning in report.warnings)
    assert [row[3].text for row in table(report, "throughput").rows][3:] == ["–", "–"]  # noqa: RUF001
    assert texts(table(report, "runs"))[1][:4] == ["2", "nginx", "1", "3 of 5"]
    assert "1 repetition can't show" in claims(report)
    assert "M" in table(report, "throughput").rows[0][2].marks


def test_an_experiment_without_a_single_level_is_a_report_without_figures() -> None:
    report = build_from(replace(experiment(TWO), records=[]))
    assert any("No load level was finished" in warning for warning in report.warnings)
    assert [figure.key for figure in report.figures] == ["testbed"]
    assert "apache finished no load level" in claims(report)


def test_a_server_on_which_every_client_failed_has_no_peak_to_boast_of() -> None:
    source = experiment(TWO)
    report = report_of(source, lambda row: without_success(row) if row.configuration == "nginx" else row)
    assert "nginx completed no request in any window." in claims(report)
    assert "nginx and apache can't be compared in overall average" in claims(report)
    assert "apache peaked at" in claims(report)


def test_a_single_level_is_no_curve() -> None:
    report = report_of(experiment({"apache": Shape(2000)}, clients=(16,)))
    assert "Only one load level was tested" in claims(report)


def test_a_peak_at_the_last_level_is_a_lower_bound() -> None:
    report = report_of(experiment({"apache": Shape(2000, knee=32, fall=0)}))
    assert "may lie higher" in claims(report)
    assert table(report, "peaks").rows[0][1].text.startswith("≥\u00a0")


def test_a_level_that_was_ended_early_is_left_out_and_named() -> None:
    source = experiment(TWO)
    early = source.records[0]
    report = report_of(source, lambda row: replace(row, stopped=True, operations=0) if row is early else row)
    assert "The figures leave out run 1, apache, load level 1_client: it ended early." in report.warnings
    first = report.results.configurations[0].levels[0]
    assert first is not None
    assert first.repetitions == 2


def test_records_that_contradict_themselves_are_shown_up() -> None:
    source = experiment(TWO)
    bad = source.records[0]
    report = report_of(source, lambda row: replace(row, operations=row.operations + 1) if row is bad else row)
    assert sum(warning.startswith("The records are inconsistent: run 1") for warning in report.warnings) == 3


def test_a_shortened_run_says_so_on_every_table_and_figure_and_a_full_one_on_none() -> None:
    short, full = report_of(experiment(TWO, scale=0.02)), report_of(experiment(TWO, scale=1.0, repetitions=1))
    short_lines = bases(short)
    assert len(short_lines) > 10
    assert all("Suite shortened to 2 % of its full length." in line for line in short_lines)
    assert not any("shortened" in line for line in bases(full))


def test_every_table_and_figure_names_window_repetitions_spread_and_clients() -> None:
    report = of_two()
    for line in bases(report):
        assert "Measured: 4.8 s of the 6 s of each load level." in line
        assert "3 repetitions" in line
        assert "All planned clients took part." in line
    assert "Mean of 3 repetitions, with the range." in table(report, "throughput").basis
    assert "3 repetitions together" in table(report, "response").basis


def test_the_statement_on_names_stands_in_summary_and_methodology() -> None:
    report = of_two()
    statement = "no figure here is a WebBench or NetBench result."
    assert report.summary.text[-1].endswith(statement)
    assert any(fact.text.endswith(statement) for fact in report.methodology)


def test_many_configurations_are_spread_over_several_figures_and_tables() -> None:
    report = report_of(
        experiment({f"nginx-worker-{count}": Shape(500 + 100 * count) for count in range(8)}, repetitions=1)
    )
    assert [figure.key for figure in report.figures if figure.key.startswith("throughput")] == [
        "throughput-1",
        "throughput-2",
    ]
    assert [len(table.columns) for table in report.tables if table.key.startswith("throughput")] == [8, 4]
    assert len(report.comparisons) == 8 * 7 / 2


def test_percentiles_are_of_the_merged_repetitions_within_the_histograms_precision() -> None:
    random = np.random.default_rng(2)
    runs = [random.gamma(2, 1e6, 30_000).astype(int), random.gamma(2, 3e6, 20_000).astype(int)]
    found = histograms.times([histogram(run.tolist()) for run in runs])
    expected = np.quantile(np.concatenate(runs), histograms.QUANTILES, method="inverted_cdf") / 1e6
    assert found is not None
    assert found.percentiles_ms == pytest.approx(expected.tolist(), rel=2e-3)
    assert found.count == 50_000
    assert found.mean_ms == pytest.approx(np.concatenate(runs).mean() / 1e6, rel=2e-3)


def test_a_percentile_of_too_few_responses_is_not_given() -> None:
    found = histograms.times([histogram([1_000_000] * 500)])
    assert found is not None
    assert found.percentiles_ms[2:] == (None, None)
    assert histograms.times([histogram([])]) is None


def test_cpu_per_request_is_the_servers_cpu_time_over_its_successes() -> None:
    report = report_of(experiment({"apache": Shape(2000, server_cpu_us=80.0)}))
    assert {row[2].text for row in table(report, "costs").rows} == {"80.0"}
    assert {row[5].text for row in table(report, "costs").rows} == {"17.0"}


def test_what_else_used_the_machine_is_a_finding_where_it_was_measured() -> None:
    source = experiment(TWO)
    sentence = (
        "other programs used up to 0.01 CPUs and the hypervisor took up to 0.01 CPUs at any load level."
    )
    assert sentence in claims(report_of(source))
    unknown = report_of(source, lambda row: replace(row, others_cpu_s=None, steal_cpu_s=None))
    assert "hypervisor" not in claims(unknown)


def test_a_throughput_that_only_the_plans_bound_held_is_no_peak_of_the_server() -> None:
    source = experiment({"target": Shape(2000)}, url="http://127.0.0.1:8080/", max_rate_per_s=2050)
    report = report_of(source)
    assert table(report, "peaks").rows[0][1].marks == "R"
    assert any(note.startswith("R rate-bound") for note in table(report, "peaks").notes)
    assert "peaked at" not in claims(report)
    assert "rate-bound" in report.summary.text[1]
    assert "The plan's bound of 2,050 requests/s limited it (rate-bound)" in claims(report)
    facts = {fact.label: fact.text for fact in report.methodology}
    assert "target: at most 32 clients, 2,050 requests/s over all clients" in facts["Bounds"]
    points = [
        point for figure in report.figures for panel in figure.panels for point in panel.series[0].points
    ]
    assert {point.limited_by for point in points} == {(), ("rate-bound",)}
    free = report_of(experiment({"target": Shape(2000)}, url="http://127.0.0.1:8080/", max_rate_per_s=9e9))
    assert table(free, "peaks").rows[0][1].marks == ""
    assert "Bounds" not in {fact.label for fact in of_two().methodology}


def test_failed_requests_count_towards_the_bound_since_the_pace_held_them_too() -> None:
    source = experiment({"target": Shape(900)}, clients=(16,), repetitions=1, max_rate_per_s=2000)
    hit = report_of(source, lambda row: with_error(row, "server", int(1000 * row.window_s)))
    assert "R" in table(hit, "peaks").rows[0][1].marks


def test_a_comparison_of_rate_bound_servers_says_that_it_compares_the_bound() -> None:
    report = report_of(experiment(TWO, max_rate_per_s=3000))
    [finding] = [finding for finding in report.findings if finding.topic == "Comparison"]
    assert "nginx was rate-bound" in finding.claim
    assert [row[3].marks for row in table(report, "improvements").rows] == ["R", "R"]
    assert any(note.startswith("R rate-bound") for note in table(report, "improvements").notes)


def test_a_machine_that_others_used_is_said_at_the_top_and_marked_at_each_level() -> None:
    source = experiment(TWO)
    busy = {(1, 2), (2, 2), (4, 5)}
    report = report_of(
        source,
        lambda row: replace(row, others_cpu_s=0.4 * row.window_s) if (row.run, row.level) in busy else row,
    )
    [warning] = [warning for warning in report.warnings if "noisy" in warning]
    assert warning.startswith(
        "Other activity disturbed 3 of 10 load levels, marked noisy (N): other programs used up to 0.40 CPUs"
    )
    marks = [[cell.marks for cell in row[2:]] for row in table(report, "throughput").rows]
    assert marks == [["", ""], ["N", "N"], ["", ""], ["", ""], ["N", ""]]
    unknown = report_of(source, lambda row: replace(row, others_cpu_s=None, steal_cpu_s=None))
    assert not any("noisy" in warning for warning in unknown.warnings)


def test_the_cpus_of_generator_and_servers_are_named_and_sharing_one_is_a_warning() -> None:
    apart = {fact.label: fact.text for fact in of_two().methodology}
    assert apart["Generator"].startswith("1 thread on CPU 0.")
    assert apart["Configuration apache"].startswith("apache, on CPU 1;")
    shared = report_of(experiment(TWO, generator_cpus=(0, 1)))
    facts = {fact.label: fact.text for fact in shared.methodology}
    assert facts["Generator"].startswith("1 thread on CPUs 0 and 1.")
    assert "on CPU 1, shared with the generator" in facts["Configuration nginx"]
    assert any("apache and nginx share CPU 1 with the generator" in warning for warning in shared.warnings)
    own = report_of(experiment(TWO, url="http://127.0.0.1:8080/"))
    assert "on CPUs that its user chose" in {f.label: f.text for f in own.methodology}["Configuration apache"]


def test_what_a_stopped_level_did_not_measure_is_no_zero_anywhere() -> None:
    source = experiment({"apache": Shape(2000)}, clients=(8,), repetitions=2)

    def stopped(row: LevelRecord) -> LevelRecord:
        row = replace(row, stopped=True, loop_lag_hdr=histogram([]))
        return replace(row, generator_cpu_user_s=0.0, generator_cpu_system_s=0.0)

    report = report_of(source, lambda row: stopped(row) if row.run == 1 else row)
    [row] = table(report, "costs").rows
    assert row[5].text == "17.0"
    assert row[9].text == "0.0200"
    assert [len(raw.rows) for raw in report.raw if raw.name == "levels"] == [1]
    assert table(report_of(source, stopped), "costs").rows == ()


def test_of_many_configurations_the_findings_name_few_and_count_the_rest() -> None:
    shapes = {f"nginx-workers-{count}": Shape(500 + 100 * count) for count in range(12)}
    report = report_of(experiment(shapes))
    few = [finding for finding in report.findings if finding.topic in ("Peak", "Comparison")]
    assert len(few) <= 8
    text = claims(report)
    for name in ("nginx-workers-0 peaked", "nginx-workers-11 peaked", "nginx-workers-11 is faster than"):
        assert name in text
    assert "11 comparisons with nginx-workers-0 in overall average: 11 faster." in text
    assert all(len(paragraph) < 500 for paragraph in report.summary.text)


def test_a_failed_run_and_a_count_that_the_server_does_not_share_are_warnings() -> None:
    notes = {
        1: RunNote(state="failed", reason="apache2 ended with status 1"),
        2: RunNote(
            state="done", requests_answered=10_000, requests_failed=20, requests_by_server_count=10_025
        ),
        3: RunNote(
            state="done",
            requests_answered=10_000,
            requests_failed=0,
            requests_by_server_count=9_000,
            crashes=["[core:notice] child pid 7 exit signal Aborted (6)", "and another"],
        ),
    }
    report = build_from(replace(experiment(TWO), run_notes=notes))
    assert report.warnings[1:] == (
        "Run 1, apache, failed: apache2 ended with status 1.",
        "Run 3, nginx: the server's log reports 2 crashes of its processes. The first: [core:notice] child pid 7 exit "
        "signal Aborted (6)",
        "Run 3, nginx: the generator counted 10,000 answers, but the server counted 9,000 requests.",
    )
    assert texts(table(report, "runs"))[1][4:] == ["done", "10,000", "20", "10,025"]
    assert "No request failed and no client left in the runs that finished; 1 run failed." in claims(report)


def test_the_generators_own_queue_is_connections_times_its_cpu_time_of_a_request() -> None:
    report = of_two()
    for level in report.results.levels:
        assert level.own_queue_ms == pytest.approx(level.clients * level.threads * 17 / 1000)


def test_what_limited_a_level_is_named_only_where_something_ran_at_its_limit() -> None:
    free = texts(table(report_of(experiment({"apache": Shape(2000, waiting=0.07)})), "costs"))
    assert {row[-1] for row in free} == {"nothing found"}
    held = texts(table(report_of(experiment({"apache": Shape(2000, waiting=0.5)})), "costs"))
    assert {row[-1] for row in held} == {"generator"}
