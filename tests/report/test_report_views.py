"""The views: a page without external files, figures, CSV and terminal text."""

import base64
import csv
import io
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest
from rich.console import Console

from serverdyno.report import build
from serverdyno.report.build import build_from
from serverdyno.report.model import Figure, Panel, Point, Report, Series
from serverdyno.report.views import annotate, charts, files, html, lines, palette, text
from serverdyno.report.views import csv as report_csv
from serverdyno.store.experiment import Experiment
from serverdyno.store.folder import Folder
from support.report_tables import check_golden
from support.synthetic_experiment import Shape, experiment, with_error

THREE = {
    "apache": Shape(2100, fall=0.25),
    "nginx": Shape(3900, knee=24, waiting=0.3),
    "lighttpd": Shape(2140, noise=0.03),
}
VOID = {"meta", "link", "br", "img", "hr", "input"}


class Outline(HTMLParser):
    """Checks that elements close in order, and collects addresses and ids."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "action", "data"):
                self.addresses.append(value or "")
            if name == "id":
                self.ids.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def report() -> Report:
    source = experiment(THREE)
    records = [
        with_error(row, "server", 2, left=1) if place == 3 else row
        for place, row in enumerate(source.records)
    ]
    return build_from(replace(source, records=records))


@pytest.fixture(scope="module")
def page(report: Report) -> str:
    return html.page(report, {figure.key: charts.svg(figure) for figure in report.figures})


def outline(page: str) -> Outline:
    found = Outline()
    found.feed(page)
    assert found.open == []
    return found


def test_the_page_is_well_formed_and_needs_no_network(page: str) -> None:
    found = outline(page)
    assert found.addresses
    assert all(address.startswith(("data:", "#")) for address in found.addresses)
    assert "<script" not in page
    assert not re.search(r"url\(\s*['\"]?http|@import", page)
    assert len(set(found.ids)) == len(found.ids)


def test_every_figure_is_inlined_and_every_table_numbered_once(page: str, report: Report) -> None:
    assert page.count("<svg") == len(report.figures)
    labels = [table.label for table in report.tables] + [figure.label for figure in report.figures]
    assert all(page.count(f"<b>{label}.</b>") == 1 for label in labels)


def test_every_table_that_evidence_points_to_exists(report: Report) -> None:
    numbers = {
        int(number) for finding in report.findings for number in re.findall(r"Table (\d+)", finding.evidence)
    }
    assert numbers <= {table.number for table in report.tables}


def test_configuration_files_are_disclosed_in_full(page: str) -> None:
    assert "ServerRoot /etc/apache2\nListen 127.0.0.1:8080\n" * 30 in page
    assert "net.ipv4.tcp_tw_reuse" in page
    assert "/usr/sbin/apache2 -f httpd.conf -DFOREGROUND" in page


def test_hostile_text_from_records_stays_text(report: Report) -> None:
    hostile = "<script>alert(1)</script>"
    source = replace(
        report.source, disclosure={"host": {"kernel": hostile, "motd": hostile * 9 + "\n" + hostile}}
    )
    changed = build_from(source)
    page = html.page(changed, {figure.key: charts.svg(figure) for figure in changed.figures})
    assert hostile not in page
    assert "&lt;script&gt;" in page
    outline(page)


def test_a_setting_that_was_left_out_is_shown_with_the_value_in_effect(report: Report) -> None:
    described = {"settings": {"workers": None, "gzip": None}, "effective": {"workers": 2}}
    kept = replace(report.source, disclosure={"servers": {"nginx": {"version": "1", **described}}})
    facts = {fact.label: fact.text for found in build_from(kept).disclosure for fact in found.facts}
    assert (facts["settings, workers"], facts["settings, gzip"]) == ("2 (default)", "not set")


def test_the_downloads_are_the_raw_tables(page: str, report: Report) -> None:
    links = [address for address in outline(page).addresses if address.startswith("data:text/csv")]
    decoded = [base64.b64decode(link.partition("base64,")[2]).decode() for link in links]
    assert decoded == [report_csv.text(table) for table in report.raw]


def test_raw_figures_are_unrounded(report: Report) -> None:
    raw = next(table for table in report.raw if table.name == "levels")
    rows = list(csv.DictReader(io.StringIO(report_csv.text(raw))))
    for row, record in zip(rows, report.results.used, strict=True):
        assert float(row["operations_s"]) == record.operations / record.window_s
        assert int(row["bytes_in"]) == record.bytes_in


def test_each_figure_is_an_svg_that_names_axes_series_and_basis(report: Report) -> None:
    for figure in report.figures[:-1]:  # the last is the testbed, which shows no measurement
        drawing = annotate.alone(charts.svg(figure), figure)
        root = ElementTree.fromstring(drawing)
        words = " ".join(
            "".join(element.itertext()) for element in root.iter() if element.tag.endswith("text")
        )
        assert figure.x_title in words
        assert "Suite shortened" in words
        for panel in figure.panels:
            assert panel.y_title in words or figure.kind == "bars"
            assert all(line.name in words for line in panel.series)


LONG = "windows-server-2003-enterprise-edition-with-iis-6-tuned-as-appendix-c-says"


def test_no_word_of_a_drawing_is_cut_off_and_lines_keep_names_of_their_own() -> None:
    # Titles and names have any length; some names are alike at both ends.
    names = [f"apache-{module}-processors-{count}" for module in ("native", "lua") for count in (1, 2)]
    built = build_from(experiment({name: Shape(2000 + 100 * len(name)) for name in [*names, LONG]}))
    for figure in built.figures[:-1]:
        long = replace(figure, title=f"{figure.title}: {LONG} and {LONG}")
        root = ElementTree.fromstring(annotate.alone(charts.svg(long), long))
        check_within(root, float(root.attrib["viewBox"].split()[2]), 0.0)
        if figure.kind == "lines":
            words = [element.text or "" for element in ElementTree.fromstring(charts.svg(figure)).iter()]
            labels = [word for word in words if word.startswith(("apac", "wind")) and ":" not in word]
            lines = sum(len(panel.series) for panel in figure.panels)
            assert len(labels) == lines, figure.key
            assert len(set(labels)) == len(names) + 1, figure.key


def check_within(element: Element, width: float, moved: float) -> None:
    """Check that texts end before the drawing does, at 0.5 em per letter, the mean width in Liberation Sans."""
    if place := re.match(r"translate\(([\d.]+)", element.attrib.get("transform", "")):
        moved += float(place[1])
    if element.tag.endswith("text"):
        wide = 0.5 * float(element.attrib.get("font-size", 11)) * len("".join(element.itertext()))
        start = moved + float(element.attrib["x"])
        start -= {"middle": wide / 2, "end": wide}.get(element.attrib.get("text-anchor", ""), 0.0)
        assert start >= 0 and start + wide <= width, "".join(element.itertext())
    for inner in element:
        check_within(inner, width, moved)


def test_the_first_and_the_last_load_level_have_a_tick_and_those_between_are_spread() -> None:
    for clients in ((1, *range(4, 61, 4)), (1, *range(8, 145, 8)), (1,), (1, 2)):
        series = (Series("nginx", 0, tuple(Point(float(load), 100.0) for load in clients)),)
        drawn = lines.svg(Figure("f", 0, "", "", "lines", "Clients", (Panel("", "requests/s", series),)))
        texts = [element for element in drawn.iter("text") if element.get("text-anchor") == "middle"]
        places = {element.text: float(element.get("x", "")) for element in texts if element.text != "Clients"}
        assert {f"{clients[0]}", f"{clients[-1]}"} <= places.keys()
        gaps = [after - before for before, after in pairwise(sorted(places.values()))]
        assert not gaps or max(gaps) < 2.1 * min(gaps)


def test_a_long_name_of_a_line_fits_in_any_font() -> None:
    names = ("samba-oplocks-on-processors-1", "samba-oplocks-on-processors-2", "samba")
    series = tuple(Series(name, style, (Point(1.0, 100.0 * style),)) for style, name in enumerate(names))
    drawn = lines.svg(Figure("f", 0, "", "", "lines", "Clients", (Panel("", "Mbit/s", series),)))
    found = {element.text: element for element in drawn.iter("text") if element.text in names}
    assert found.keys() == set(names)  # none is cut
    for name, element in found.items():
        length = float(element.get("textLength", len(name) * lines.WIDE_CHARACTER))
        assert float(element.get("x", "")) + length <= lines.WIDTH


def test_series_differ_in_colour_dash_and_shape() -> None:
    styles = range(palette.STYLES)
    looks = {(palette.colour(style), tuple(palette.dash(style)), palette.shape(style)) for style in styles}
    assert len(looks) == palette.STYLES == 36
    first = range(len(palette.COLOURS))
    assert (
        len({palette.colour(style) for style in first}) == len({palette.shape(style) for style in first}) == 6
    )


def test_a_single_level_without_any_success_can_still_be_drawn() -> None:
    report = build_from(experiment({"apache": Shape(0.0, noise=0)}, clients=(4,), repetitions=1))
    for figure in report.figures:
        ElementTree.fromstring(charts.svg(figure))


def test_the_terminal_shows_warnings_peaks_and_findings_as_kept(report: Report) -> None:
    screen = io.StringIO()
    text.render(report, Console(width=140, file=screen, force_terminal=False))
    check_golden("report.txt", screen.getvalue())


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_word_and_no_figure_is_broken_where_a_terminal_is_narrow(width: int) -> None:
    shapes = {
        f"apache-access-log-off-mmap-file-cache-{'on' if count else 'off'}-workers-{count}": Shape(
            12_345 + 100 * count, noise=0.05
        )
        for count in range(7)
    }
    built = build_from(experiment(shapes, clients=(1, 8)))
    screen = io.StringIO()
    text.render(built, Console(width=width, file=screen))
    shown = screen.getvalue()
    assert all(len(line) <= width for line in shown.splitlines())
    words = set(re.split(r"[\s-]+", shown))
    for content in (found for found in built.tables if found.key.partition("-")[0] in text.SHOWN):
        cells = [part for row in content.rows for cell in row for part in (cell.text, cell.detail)]
        heads = [part for column in content.columns for part in (column.label, column.unit)]
        assert {word for part in cells + heads for word in re.split(r"[\s-]+", part)} - {""} <= words


def test_the_raw_figures_by_point_are_as_kept(report: Report) -> None:
    # The comparison ends at nine digits, because the last ones depend on the processor.
    raw = next(table for table in report.raw if table.name == "curves")
    rows = [
        [f"{round(value, 9):.9g}" if isinstance(value, float) else value for value in row] for row in raw.rows
    ]
    check_golden("curves.csv", report_csv.text(replace(raw, rows=tuple(map(tuple, rows)))))


def test_what_is_said_is_as_kept(report: Report) -> None:
    lines = [*report.warnings, *report.summary.text]
    lines += [f"{finding.topic}: {finding.claim} [{finding.evidence}]" for finding in report.findings]
    lines += [f"{fact.label}: {fact.text}" for fact in report.methodology]
    check_golden("sentences.txt", "\n".join(lines) + "\n")


def test_a_stored_experiment_is_written_as_page_figures_and_tables(tmp_path: Path) -> None:
    source = experiment({"apache": Shape(300)}, clients=(1, 8), repetitions=1)
    with Experiment.create(tmp_path / "experiment", "name = 'x'\n", source.head) as kept:
        for record in source.records:
            kept.write_level(record)
        kept.write_host({"kernel": "6.1"})
        page = files.write_report(build(kept), kept.report_folder())
    assert page == tmp_path / "experiment" / "report" / "report.html"
    assert build_from(source).findings[0].claim in page.read_text(encoding="utf-8")
    assert (page.parent / "figures" / "throughput.svg").read_text(encoding="utf-8").startswith("<svg")
    assert (page.parent / "tables" / "levels.csv").read_text(encoding="utf-8").count("\n") == 3


def test_a_report_written_again_is_the_same_to_the_byte(report: Report, tmp_path: Path) -> None:
    first = files.write_report(report, Folder.open(tmp_path)).read_bytes()
    assert files.write_report(report, Folder.open(tmp_path)).read_bytes() == first


def test_names_of_lines_that_end_near_the_bottom_are_moved_apart_upwards() -> None:
    assert lines.spread([95.0, 97.0, 99.0], 14.0, (0.0, 100.0)) == [72.0, 86.0, 100.0]
    assert lines.spread([1.0, 2.0, 50.0], 14.0, (0.0, 100.0)) == [1.0, 15.0, 50.0]
