"""Plans that vary one thing on purpose (CPUs, tunings), and figures second by second."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest

from serverdyno import published, wording
from serverdyno.errors import UserError
from serverdyno.published.tables import Tables
from serverdyno.report.build import build_from
from serverdyno.report.model import Figure, Report, Section
from serverdyno.report.source import Source
from serverdyno.report.views import charts
from serverdyno.store.records import LevelRecord
from support.synthetic_experiment import Shape, experiment


def configured(
    source: Source, settings: Mapping[str, Mapping[str, Any]], cpus: Sequence[int] | None = None
) -> Source:
    """Return the experiment with these settings per configuration of one server, each on this many CPUs."""
    counts = cpus or [1] * len(settings)
    configurations = [
        replace(found, server="nginx", settings=dict(settings[found.name]), cpus=tuple(range(1, count + 1)))
        for found, count in zip(source.head.configurations, counts, strict=True)
    ]
    return replace(source, head=source.head.model_copy(update={"configurations": configurations}))


def section(report: Report, key: str) -> Section | None:
    return next((found for found in report.sections if found.key == key), None)


def scaled_over(
    peaks: Sequence[float],
    counts: Sequence[int],
    beside: published.PublishedReport | None = None,
    repetitions: int = 2,
    **settings: object,
) -> Report:
    names = [f"nginx-{count}-cpus" for count in counts]
    source = experiment(
        {name: Shape(peak) for name, peak in zip(names, peaks, strict=True)}, repetitions=repetitions
    )
    return build_from(configured(source, dict.fromkeys(names, settings), counts), beside)


def test_what_each_cpu_brought_is_a_table_and_less_than_before_is_marked() -> None:
    report = scaled_over([1000, 1800, 1600], [1, 2, 4])
    found = section(report, "scaling")
    assert found is not None
    rows = found.tables[0].rows
    assert [row[1].text for row in rows] == ["1", "2", "4"]
    means = [result.throughput.peak.mean for result in report.results.configurations if result.throughput]
    assert [row[4].text for row in rows] == [f"{mean / means[0]:.2f}" for mean in means]
    assert [row[7].text for row in rows] == ["", "", "negative"]
    [finding] = [found for found in report.findings if found.topic == "Scaling"]
    assert "Scaling was negative at 4 CPUs" in finding.claim
    assert f"{means[2] / means[0]:.2f} times its peak with 1" in finding.claim
    assert "fewer than 6 numbers of CPUs were measured" in found.text[0]
    assert "is not fitted, so there is no prediction for more CPUs" in found.text[0]


def test_hyperthreads_and_numa_nodes_of_the_servers_cpus_stand_next_to_their_scaling() -> None:
    names = ["nginx-1-cpus", "nginx-3-cpus"]
    source = experiment({name: Shape(1000) for name in names}, repetitions=2)
    cpu = {"thread_siblings": ["0,4", "1-2", "3,7"], "numa_node_cpus": {"0": "0,1", "1": "2-7"}}
    disclosed = replace(source, disclosure={"host": {"cpu": cpu}})
    report = build_from(configured(disclosed, {name: {} for name in names}, [1, 3]))
    found = section(report, "scaling")
    assert found is not None
    assert [[cell.text for cell in row[8:]] for row in found.tables[0].rows] == [["1", "0"], ["2", "0 and 1"]]
    [finding] = [found for found in report.findings if found.topic == "Scaling"]
    assert "The 3 CPUs are 2 cores; hyperthreads of one core: CPUs 1 and 2." in finding.claim
    assert "The 3 CPUs are on NUMA nodes 0 and 1." in finding.claim
    silent = section(scaled_over([1000, 1800], [1, 2]), "scaling")
    assert silent is not None
    assert {cell.text for row in silent.tables[0].rows for cell in row[8:]} == {wording.NOTHING}


def test_published_peaks_by_processors_stand_next_to_ones_own_in_one_table_and_two_panels() -> None:
    report = scaled_over([1000, 1800], [1, 2], beside=published.named("2003-veritest-iis:21"))
    found = section(report, "beside")
    assert found is not None and "Not comparable" in found.text[0]
    [table], [figure] = found.tables, found.figures
    assert [column.label for column in table.columns] == [
        "Year", "Server", "Machine", "1 CPU", "2 CPUs", "4 CPUs", "8 CPUs"
    ]  # fmt: skip
    own, *then = [[cell.text for cell in row] for row in table.rows]
    means = [result.throughput.peak.mean for result in report.results.configurations if result.throughput]
    assert own[:3] == ["2026", "nginx", "this machine"]
    assert own[3:] == [*(wording.rate(mean) for mean in means), wording.NOTHING, wording.NOTHING]
    # Figure 21 of the report repeats figure 4.
    assert ["2003", "TUX and Apache 1.3.23", "DL760", "1,103", "1,269", "1,418", "2,534"] in then
    assert ["2003", "Apache 2.0.40", "DL380", wording.NOTHING, "1,211", *[wording.NOTHING] * 2] in then
    mine, theirs = figure.panels
    assert [line.name for line in mine.series] == ["nginx"]
    assert [(point.x, point.y) for point in theirs.series[0].points] == [
        (1, 1146), (2, 1805), (4, 2413), (8, 2639)
    ]  # fmt: skip
    assert len(theirs.series) == 3  # Apache 2.0.40 was measured only with two processors, so it has no line
    ElementTree.fromstring(charts.svg(figure))


def test_without_a_figure_each_table_of_a_published_report_stands_once() -> None:
    found = section(scaled_over([1000, 1800], [1, 2], beside=published.named("2003-veritest-iis")), "beside")
    assert found is not None
    titles = [table.title.partition("2003, ")[2] for table in found.tables]
    assert len(titles) == len(set(titles)) == 4
    assert "4 more published figures" in found.text[0]


def test_published_averages_stand_next_to_averages_also_of_as_many_runs_as_were_published() -> None:
    beside = published.named("2001-etesting-netware:7")
    columns = {"mbits_per_s": "requests_per_s"}  # the unit of these configurations
    tables = Tables(
        [
            replace(table, columns=tuple(columns.get(name, name) for name in table.columns))
            for table in beside.tables
        ]
    )
    report = scaled_over([1000, 1800], [1, 2], beside=replace(beside, tables=tables), repetitions=3)
    found, terms = section(report, "beside"), report.results.terms
    assert found is not None
    [table] = found.tables
    assert table.title.startswith("Overall averages by CPUs") and len(table.notes) == 2
    own, first, netware, _ = table.rows
    results = report.results.configurations
    averages = [result.throughput.overall_average.mean for result in results if result.throughput]
    assert [cell.text for cell in own[3:5]] == [terms.written(mean) for mean in averages]
    for cell, mean in zip(own[3:5], averages, strict=True):
        low, high = (float(end.replace(",", "")) for end in cell.detail.split(" to "))
        assert low <= mean <= high
    assert first[1].text == "nginx, first 2 runs"
    runs = [result.runs.throughput[:2].mean() for result in results]
    assert [cell.text for cell in first[3:5]] == [terms.written(mean) for mean in runs]
    assert [cell.text for cell in netware[:3]] == ["2001", "NetWare 6", wording.NOTHING]


def test_a_published_table_of_two_machines_stands_next_to_one_configuration_without_lines() -> None:
    report = scaled_over([1000], [2], beside=published.named("2003-veritest-iis:15"))
    found = section(report, "beside")
    assert found is not None and not found.figures
    own, *then = [[cell.text for cell in row] for row in found.tables[0].rows]
    assert own[:3] == ["2026", "nginx", "this machine"]
    assert ["2003", "TUX", "DL380", "14,741"] in then


def test_a_figure_that_a_published_report_does_not_have_is_named_with_those_that_it_has() -> None:
    with pytest.raises(UserError, match=r"figure of 2003-veritest-iis.*99"):
        published.named("2003-veritest-iis:99")


def test_the_law_is_fitted_to_enough_counts_and_predicts_nothing_where_it_is_poor() -> None:
    counts = [1, 2, 3, 4, 6, 8]
    law = [1000 * n / (1 + 0.05 * (n - 1) + 0.004 * n * (n - 1)) for n in counts]
    good = section(scaled_over(law, counts), "scaling")
    assert good is not None
    assert "contention 0.0" in good.text[0]
    assert "throughput is highest at about" in good.text[0] or "no maximum" in good.text[0]
    poor = section(scaled_over([1000, 3000, 900, 2500, 800, 2000], counts), "scaling")
    assert poor is not None
    assert "does not describe these figures" in poor.text[0]


def test_configurations_that_differ_in_more_than_cpus_are_no_scaling() -> None:
    names = ["a", "b"]
    source = experiment({name: Shape(1000) for name in names}, repetitions=1)
    apart = configured(source, {"a": {"workers": 1}, "b": {"workers": 2}}, [1, 2])
    assert section(build_from(apart), "scaling") is None
    by_setting = configured(source, {"a": {"cpus": 1}, "b": {"cpus": 4}})
    assert section(build_from(by_setting), "scaling") is not None
    assert section(build_from(source), "scaling") is None


def test_a_count_without_throughput_is_left_out_by_name() -> None:
    report = scaled_over([1000, 0, 1600], [1, 2, 4])
    [finding] = [found for found in report.findings if found.topic == "Scaling"]
    assert "Left out, because they have no throughput: nginx-2-cpus." in finding.claim


TUNINGS: dict[str, dict[str, Any]] = {
    "base": {},
    "sendfile": {"sendfile": True},
    "cache": {"cache": "on"},
    "backlog": {"backlog": 4096},
    "sendfile-cache": {"sendfile": True, "cache": "on"},
    "all": {"sendfile": True, "cache": "on", "backlog": 4096},
}
PEAKS = {"base": 1000, "sendfile": 1300, "cache": 1200, "backlog": 1000, "sendfile-cache": 1400, "all": 1400}


@pytest.fixture(scope="module")
def tuned() -> Report:
    source = experiment({name: Shape(PEAKS[name]) for name in TUNINGS})
    return build_from(configured(source, TUNINGS))


def test_tunings_one_by_one_and_together_are_recognised_in_the_settings(tuned: Report) -> None:
    found = section(tuned, "tuning")
    assert found is not None
    peaks = [row for row in found.tables[0].rows if row[2].text == "peak"]
    assert [(row[0].text, row[1].text.split(",")[0]) for row in peaks] == [
        ("sendfile", "one change"),
        ("cache", "one change"),
        ("backlog", "one change"),
        ("sendfile-cache", "this change and the earlier ones"),
        ("all", "all changes together"),
    ]
    assert peaks[0][0].detail == "sendfile = True"
    assert [row[5].text for row in peaks] == ["faster", "faster", "no difference shown", "faster", "faster"]
    [finding] = [found for found in tuned.findings if found.topic == "Tuning"]
    assert "sendfile (sendfile = True) changed the overall average most: +3" in finding.claim


def test_a_change_that_costs_the_most_is_named_before_one_that_brings_less() -> None:
    settings: dict[str, dict[str, Any]] = {"off": {}, "a": {"a": 1}, "b": {"b": 1}, "both": {"a": 1, "b": 1}}
    source = experiment({"off": Shape(1000), "a": Shape(1100), "b": Shape(500), "both": Shape(600)})
    report = build_from(configured(source, settings))
    [finding] = [found for found in report.findings if found.topic == "Tuning"]
    assert "b (b = 1) changed the overall average most" in finding.claim


def test_effects_are_drawn_about_zero_with_their_intervals(tuned: Report) -> None:
    found = section(tuned, "tuning")
    assert found is not None
    [figure] = found.figures
    assert [line.name for line in figure.panels[0].series] == [name for name in TUNINGS if name != "base"]
    point = figure.panels[0].series[0].points[0]
    assert point.low is not None
    assert point.high is not None
    assert point.low < 30 < point.high
    words = " ".join(words_of(figure))
    assert "sendfile-cache" in words
    assert "Improvement of the overall average, %" in words


def test_two_switches_in_every_combination_have_nothing_piled_up_between_one_and_all() -> None:
    switches: dict[str, dict[str, Any]] = {"off": {}, "a": {"a": 1}, "b": {"b": 1}, "both": {"a": 1, "b": 1}}
    source = experiment({name: Shape(1000) for name in switches})
    found = section(build_from(configured(source, switches)), "tuning")
    assert found is not None
    peaks = [row for row in found.tables[0].rows if row[2].text == "peak"]
    assert [row[0].text for row in peaks] == ["a", "b", "both"]


def test_two_levels_of_one_factor_are_no_ablation() -> None:
    source = experiment({name: Shape(1000) for name in "abc"}, repetitions=1)
    levels = configured(source, {"a": {"workers": 1}, "b": {"workers": 2}, "c": {"workers": 4}})
    assert section(build_from(levels), "tuning") is None


def words_of(figure: Figure) -> list[str]:
    root = ElementTree.fromstring(charts.svg(figure))
    return ["".join(element.itertext()) for element in root.iter() if element.tag.endswith("text")]


def test_a_second_in_which_a_server_stood_still_is_drawn_in_the_panel_of_its_level() -> None:
    source = experiment({"apache": Shape(2000)}, scale=0.1)

    def stopped(record: LevelRecord) -> LevelRecord:
        kept = [row for row in record.by_second if row.second != 11 or record.level != 2]
        return replace(record, by_second=kept)

    report = build_from(replace(source, records=[stopped(record) for record in source.records]))
    [figure] = [figure for figure in report.figures if figure.key == "seconds"]
    assert [panel.title for panel in figure.panels] == [
        "1 client",
        "8 clients",
        "16 clients",
        "24 clients",
        "32 clients",
    ]
    lines = [panel.series[0] for panel in figure.panels]
    assert {line.name for line in lines} == {"apache"}
    assert {len(line.points) for line in lines} == {30}
    for level, line in enumerate(lines, start=1):  # the mean of the repetitions
        totals = [
            sum(row.operations for row in each.by_second) for each in report.results.records("apache", level)
        ]
        assert sum(point.y for point in line.points) == pytest.approx(sum(totals) / len(totals))
    assert [[point.x for point in line.points if point.y == 0] for line in lines] == [[], [11.5], [], [], []]
    assert {panel.shaded for panel in figure.panels} == {((0.0, 3.0), (27.0, 30.0))}
    assert "Second of the load level" in " ".join(words_of(figure))
