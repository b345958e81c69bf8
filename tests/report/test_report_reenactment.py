"""`dyno report EXPERIMENT --as NAME`: an experiment's figures and verdicts in the form of a published report."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from html import unescape
from pathlib import Path
from statistics import fmean

import pytest

from serverdyno import published, wording
from serverdyno.analysis.improvement import Metric
from serverdyno.cli.published import figures_of, page_style
from serverdyno.published import reenactment
from serverdyno.report.build import build_from
from serverdyno.report.reenact import Measured
from serverdyno.report.reenact_claims import Answered, Holds, answers
from serverdyno.report.source import Source
from serverdyno.report.views import reenactment as view
from serverdyno.store.experiment import Experiment as Stored
from serverdyno.wording import significant
from support.dyno_process import Home
from support.synthetic_experiment import Shape, experiment

CORPUS = Path(__file__).resolve().parents[1] / "data" / "corpus"
VERITEST = "2003-veritest-iis"
MOST_BYTES = 1_500_000
PREFORK = {"mpm": "prefork"}
SETTINGS: dict[str, Mapping[str, object]] = {
    "apache-processors-1": PREFORK | {"processors": 1},
    "apache-processors-2": PREFORK | {"processors": 2},
    "nginx-for-tux-processors-1": {"processors": 1},
    "nginx-for-tux-processors-2": {"processors": 2},
}


def as_of_2003(shapes: Mapping[str, Shape], *, suite: str = "webbench-4.1-static-120") -> Source:
    """Return an experiment with these servers as in the plan veritest-2003-web-static."""
    source = experiment(shapes, repetitions=6)
    head = source.head
    own = [head.suite.model_copy(update={"name": suite})]
    configurations = [
        replace(one, settings=dict(SETTINGS.get(one.name, PREFORK))) for one in head.configurations
    ]
    levels = [replace(level, suite=suite) for level in head.levels]
    changed = {"suites": own, "configurations": configurations, "levels": levels}
    return replace(source, head=head.model_copy(update=changed))


def reenacted(*sources: Source, name: str = VERITEST) -> Measured:
    report = published.load(name)
    return Measured(sources, report, reenactment.load(report))


def page_of(*sources: Source, name: str = VERITEST) -> str:
    report = published.load(name)
    mapping = reenactment.load(report)
    drawn = reenactment.drawn(report, mapping)
    figures = zip(drawn, figures_of(report, drawn), strict=True)
    return view.page(list(map(build_from, sources)), mapping, list(figures), report, page_style())


def text_of(page: str) -> str:
    """Return the text of a page outside of drawings, and `[SVG]` for each drawing."""
    page = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    page = re.sub(r"<svg.*?</svg>", "[SVG]", page, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split())


@pytest.fixture(scope="module")
def scaled() -> Source:
    """Return an experiment in which Apache gains by a second processor, and nginx loses."""
    return as_of_2003(
        {
            "apache-processors-1": Shape(10_000),
            "apache-processors-2": Shape(18_000),
            "nginx-for-tux-processors-1": Shape(14_000),
            "nginx-for-tux-processors-2": Shape(9_000),
        }
    )


def answers_of(source: Source) -> dict[str, Answered]:
    return {each.claim.id: each for each in answers(reenacted(source))}


@pytest.fixture(scope="module")
def judged(scaled: Source) -> dict[str, Answered]:
    return answers_of(scaled)


def test_claims_hold_or_do_not_by_the_statistics_of_the_report(judged: dict[str, Answered]) -> None:
    apache, tux = judged["summary-static-scaling-apache-2"], judged["summary-static-scaling-tux-2"]
    assert apache.holds is Holds.HOLDS
    assert re.search(
        r"apache-processors-2 is faster than apache-processors-1 in peak: \+(?:79|80|81)", apache.found[0]
    )
    assert "95 % interval" in apache.found[0]
    assert tux.holds is Holds.CONTRADICTED
    assert "nginx-for-tux-processors-2 is slower than nginx-for-tux-processors-1" in tux.found[0]


def test_a_claim_that_cannot_be_judged_says_why(judged: dict[str, Answered]) -> None:
    for identity, why in (
        ("key-1-apache-1.3.23", "This laboratory has no Windows server, so no IIS."),
        (
            "summary-static-scaling-apache-4",
            "None of these experiments includes apache, mpm prefork, processors 4.",
        ),
        ("summary-cgi-tux-helps", "None of these experiments ran the suite webbench-4.1-dynamic-cgi."),
        ("method-clients", "does not compare the peaks or the overall averages"),
    ):
        claim = judged.get(identity) or next(each for each in judged.values() if why in " ".join(each.why))
        assert claim.holds is Holds.NOT_JUDGED
        assert not claim.found
        assert why in claim.why[0]


def test_the_page_has_the_intervals_of_the_experiments_report(
    scaled: Source, judged: dict[str, Answered]
) -> None:
    [comparison] = [
        each
        for each in build_from(scaled).comparisons
        if (each.base, each.other) == ("apache-processors-1", "apache-processors-2")
    ]
    peak = next(found for found in comparison.improvements if found.figure is Metric.PEAK)
    span = wording.change_span(peak.low_percent, peak.high_percent)
    assert f"95 % interval {span}" in judged["summary-static-scaling-apache-2"].found[0]


def test_a_processor_shared_with_the_generator_is_not_judged(scaled: Source) -> None:
    configurations = [
        replace(one, cpus=(1, 0) if one.name.endswith("-2") else (1,)) for one in scaled.head.configurations
    ]
    plan = scaled.head.plan
    generator = plan.generator.model_copy(update={"cpus": (0,)})
    head = scaled.head.model_copy(
        update={
            "configurations": configurations,
            "plan": plan.model_copy(update={"generator": generator}),
        }
    )
    found = answers_of(replace(scaled, head=head))["summary-static-scaling-apache-2"]
    assert found.holds is Holds.NOT_JUDGED
    assert found.why == (
        "apache-processors-2 shares CPU 0 with the load generator, so a further processor can't be judged.",
    )


def test_a_claim_of_two_configurations_that_are_not_here_says_which_is_missing() -> None:
    for name, identity, why in (
        ("1999-mindcraft-linux", "files-peak", "This laboratory has no Windows server."),
        ("2001-etesting-netware", "old-new-off", "This laboratory has no NetWare."),
        ("2002-etesting-sfu", "names-sfu-2-sfu-3", "so no Services for UNIX."),
        ("2004-veritest-samba", "tuning-baseline", "Our clients have no redirector to replace"),
    ):
        [claim] = [each for each in answers(reenacted(name=name)) if each.claim.id == identity]
        assert claim.holds is Holds.NOT_JUDGED
        assert why in claim.why[0], identity


def test_a_claim_that_the_report_makes_twice_is_listed_once_with_both_places(scaled: Source) -> None:
    text = text_of(page_of(scaled))
    said = "Static peak of Apache 1.3.23, DL760, rises from 1 to 2 processors"
    assert text.count(said) == 1
    places = text[text.index(said) :].partition("higher")[0]
    assert "paragraph after Figure 1; " in places
    assert "paragraph after Figure 13" in places
    # The same percentage of two configurations makes two claims.
    assert text.count("Static peak, IIS over Apache 1.3.23: 276 percent") == 2


def test_claims_that_contradict_their_own_tables_are_named(scaled: Source) -> None:
    text = text_of(page_of(scaled, name="1999-mindcraft-linux"))
    assert "contradicts: 1; " in text
    listed = text[text.index("Claims that contradict the report's own tables: 1") :]
    assert "Memory used by Linux, from the setting: 1024 MB (by the tables: is 960" in listed


def test_the_page_names_the_machine_and_the_programs(scaled: Source) -> None:
    host = {
        "cpu": {"model": "AMD EPYC", "logical": 2},
        "memory": {"total_bytes": 2**34},
        "system": {"kernel": "6.1.0"},
    }
    told = {"apache-processors-1": {"version": "Apache/2.4.62"}}
    text = text_of(page_of(replace(scaled, disclosure={"host": host, "servers": told})))
    assert "This machine AMD EPYC, 2 logical CPUs, 16 GiB of memory, Linux 6.1.0" in text
    assert re.search(r"Servers .*apache-processors-1: Apache/2\.4\.62, ", text)


def test_a_figure_without_numbers_is_drawn_from_the_figures_that_have_them(scaled: Source) -> None:
    report = published.load("2001-etesting-netware")
    mapping = reenactment.load(report)
    by_figure = {picture.figures: picture for picture in reenactment.drawn(report, mapping)}
    best = by_figure[("1",)]
    assert best.numbers_of == ("18", "20")
    points = {line.name: dict(line.points) for line in best.lines}
    assert points["6 processors, NetWare 6"][8.0] == 1026.833
    assert points["5 processors, Windows 2000 Advanced Server"][24.0] == 515.981
    text = text_of(page_of(scaled, name="2001-etesting-netware"))
    for figure in (1, 2, 5, 6, 8, 30):
        assert f"Figure {figure}, numbers from figures" in text
    assert view.NO_NUMBERS not in text


def test_curves_by_threads_have_the_threads_of_all_clients(scaled: Source) -> None:
    suite = scaled.head.suite.model_copy(update={"name": "webbench-2.0-static-288"})
    levels = [replace(level, threads=2, suite=suite.name) for level in scaled.head.levels]
    records = [replace(record, threads=2) for record in scaled.records]
    head = scaled.head.model_copy(update={"suites": [suite], "levels": levels})
    measured = reenacted(replace(scaled, head=head, records=records), name="1999-mindcraft-linux")
    [figure] = next(each.ours for each in measured.figures() if each.shown.figures == ("2",))
    assert figure.x_title == "Threads of all clients"
    drawn = {point.x for panel in figure.panels for line in panel.series for point in line.points}
    assert drawn == {2 * level.clients for level in levels}


def test_two_equal_servers_show_no_difference() -> None:
    source = as_of_2003({name: Shape(10_000, noise=0.05) for name in SETTINGS})
    found = [each for each in answers(reenacted(source)) if each.found]
    assert found
    assert {each.holds for each in found} == {Holds.NOT_SHOWN}


def test_the_page_has_the_published_figures_in_order_and_ours_below(scaled: Source) -> None:
    page = page_of(scaled)
    text = text_of(page)
    labels = re.findall(r"<h3>Figures? (\d+)", page)
    assert labels == sorted(labels, key=int)
    assert labels[0] == "1"
    first = text[text.index("Figure 1: Peaks of static content") : text.index("Figure 2: ")]
    published_at, ours_at = first.index("Figures 2 and 14: static"), first.index("Ours, in place of: ")
    assert published_at < first.index("Figures 2 and 14, in percent") < ours_at
    assert published_at < ours_at < first.rindex("[SVG]") < first.index("no Windows server, so no IIS.")
    assert "Not measured: TUX, DL760, 4 processors; TUX, DL760, 8 processors" in first
    assert "None of these experiments includes it." in first
    assert "See Figure 1 ." in text[text.index("Figure 2: ") : text.index("Figure 3: ")]
    assert "None of these experiments ran the suite webbench-4.1-dynamic-cgi." in text
    # Our peaks are drawn in the unit of the published ones; the second drawing has the percent.
    entry = page[page.index('id="entry-1"') : page.index('id="entry-2"')]
    drawings = re.findall(r"<svg.*?</svg>", entry, flags=re.DOTALL)
    assert all("requests/s" in drawing for drawing in (drawings[0], *drawings[2:]))
    assert "apache-processors-2" in drawings[-1]
    # 1, 2, 13 and 14 (peaks), 16 and 17 (curves with one and two processors)
    assert "6 of 49 published figures" in text


def test_a_page_of_two_experiments_compares_only_within_each(scaled: Source) -> None:
    other = as_of_2003({"apache-processors-1": Shape(90_000), "apache-processors-2": Shape(10_000)})
    found = {each.claim.id: each for each in answers(reenacted(scaled, other))}
    scaling = found["summary-static-scaling-apache-2"]
    assert len(scaling.found) == 2
    assert scaling.holds is Holds.CONTRADICTED
    assert (
        found["summary-static-scaling-tux-2"].found
        == answers_of(scaled)["summary-static-scaling-tux-2"].found
    )
    page = page_of(scaled, other)
    assert text_of(page).count(" of load in all, ") == 2
    entry = page[page.index('id="entry-1"') : page.index('id="entry-2"')]
    assert entry.count("<figcaption>Ours, in place of: ") == 2
    assert len(set(re.findall(r'id="([^"]+)"', page))) == len(re.findall(r'id="([^"]+)"', page))


def test_the_page_has_the_method_the_doubts_and_the_tables_of_the_report(scaled: Source) -> None:
    text = text_of(page_of(scaled))
    doubt = published.load(VERITEST).meta.doubts[0]
    assert text.index("Our experiments") < text.index("Method and hardware") < text.index(doubt.doubt)
    assert re.search(r"Their tables .*? follows: \d+; ", text)
    assert text.index("Counterparts today") < text.index("Tables")


def test_the_page_is_self_contained_and_small(scaled: Source) -> None:
    page = page_of(scaled)
    assert len(page.encode()) < MOST_BYTES
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in page
    assert "<script" not in page
    assert not re.search(r"""(?:src|href)=["'](?!#)""", page)


@pytest.mark.parametrize("count", [40, pytest.param(120, marks=pytest.mark.long)])
def test_a_page_of_many_configurations_and_hostile_names_stays_small(count: int) -> None:
    shapes = {f"apache-{number}": Shape(10_000 + number) for number in range(count)}
    source = as_of_2003(shapes)
    configurations = [
        replace(one, settings=PREFORK | {"processors": 2, "note": "<script>alert(1)</script>"})
        for one in source.head.configurations
    ]
    source = replace(source, head=source.head.model_copy(update={"configurations": configurations}))
    page = page_of(source)
    assert len(page.encode()) < MOST_BYTES
    assert "<script" not in page
    assert "more figures for this one" in text_of(page)


def test_an_experiment_of_another_kind_has_a_page_that_says_so(scaled: Source) -> None:
    text = text_of(page_of(scaled, name="2002-etesting-sfu"))
    assert "0 of 15 published figures" in text
    assert "None of these experiments ran a step of figure 8." in text
    assert "None of the published claims can be judged." in text


def test_a_recorded_experiment_becomes_the_page_of_2002(home: Home, tmp_path: Path) -> None:
    shutil.copytree(CORPUS / "steps", tmp_path / "steps")
    done = home.here("report", tmp_path / "steps", "--as", "2002-etesting-sfu")
    assert done.returncode == 0, done.stdout + done.stderr
    page = (tmp_path / "steps" / "report" / "as-2002-etesting-sfu.html").read_text()
    text = text_of(page)
    assert "12 of 15 published figures have one of ours below them" in text
    scale = Stored.open(tmp_path / "steps").head.scale
    assert scale < 1
    # The titles say the size that was measured: 480 MB and 10 GB at this scale.
    records, _ = Stored.open(tmp_path / "steps").readable_levels()
    for figure, title in (
        (11, "Copy 480 MB to the server"),
        (13, "Create a file of 10 GB"),
    ):
        [size] = {record.bytes_written for record in records if record.figure == figure}
        assert f"{title}; here, at scale {scale:g}, {size / 2**20:,.0f} MiB" in text
    listed = {record.entries for record in records if record.figure == 10}
    assert f"List 60,000 files in full; here, at scale {scale:g}, {listed.pop():,} files" in text
    times: dict[str, list[float]] = {}
    for record in records:
        if record.figure == 13:
            times.setdefault(record.configuration, []).append(record.window_s)
    at = page.index("Figure 13: Create a file of 10 GB")
    drawing = page[page.index("Ours, in place of: ", at) : page.index("<h3>", at)]
    assert times
    for name, found in times.items():
        assert re.search(rf"elapsed, {re.escape(name)}: {re.escape(significant(fmean(found)))}", drawing), (
            name
        )


def test_an_unknown_name_is_refused_before_anything_is_written(home: Home, tmp_path: Path) -> None:
    shutil.copytree(CORPUS / "steps", tmp_path / "steps")
    done = home.here("report", tmp_path / "steps", "--as", "2004-veritest-sambo")
    assert done.returncode == 2
    assert "did you mean 2004-veritest-samba" in done.stderr
    assert not (tmp_path / "steps" / "report").exists()
