"""The views for paper, programs and issues: PDF, JSON with its schema, Markdown; and the testbed's diagram."""

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
from rich.console import Console

from serverdyno import published, wording
from serverdyno.errors import UserError
from serverdyno.plan import suites
from serverdyno.plan.model import Suite
from serverdyno.report import View
from serverdyno.report.build import build_from
from serverdyno.report.model import Box, Figure, Link, Report
from serverdyno.report.model import Testbed as DrawnTestbed
from serverdyno.report.subjects.reproduce import as_toml
from serverdyno.report.views import charts, diagram, document, files, markdown, pdf, text
from serverdyno.report.views.diagram import GAP, PADDING
from serverdyno.store.experiment import Experiment
from serverdyno.store.folder import Folder
from support.places import ROOT
from support.synthetic_experiment import Shape, experiment, with_error, without_success
from support.synthetic_files import FileShape
from support.synthetic_files import experiment as file_experiment

SCHEMA = ROOT / "docs" / document.SCHEMA_NAME


@pytest.fixture(scope="module")
def report() -> Report:
    source = experiment({"apache": Shape(2100, fall=0.25), "nginx": Shape(3900, waiting=0.3)})
    return build_from(
        replace(source, records=[with_error(source.records[0], "server", 2, left=1), *source.records[1:]])
    )


@cache
def reports() -> list[Report]:
    """Return the reports that a view must be able to show: complete, partial, empty, failed, of files."""
    source = experiment({"apache": Shape(2000), "nginx": Shape(3000)}, repetitions=1)
    return [
        build_from(replace(source, records=source.records[:3])),
        build_from(replace(source, records=[])),
        build_from(replace(source, records=[without_success(row) for row in source.records])),
        build_from(file_experiment({"samba": FileShape(100, syncs_a_flush=None)}, repetitions=2)),
    ]


def loaded(report: Report) -> dict[str, Any]:
    found = json.loads(document.ReportDocument.of(report).as_json())
    assert isinstance(found, dict)
    return found


def test_the_published_schema_is_that_of_the_document() -> None:
    made = json.dumps(document.ReportDocument.schema(), indent=1, ensure_ascii=False) + "\n"
    if os.environ.get("DYNO_UPDATE_GOLDEN"):
        SCHEMA.write_text(made, encoding="utf-8")
    assert SCHEMA.read_text(encoding="utf-8") == made


def test_every_report_follows_the_published_schema(report: Report) -> None:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    for each in (report, *reports()):
        jsonschema.validate(loaded(each), schema)
    broken = loaded(report) | {"findings": "none"}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, schema)


def test_figures_for_programs_are_unrounded_and_those_of_the_records(report: Report) -> None:
    found = loaded(report)
    apache = found["configurations"][0]
    runs = report.results.configurations[0].runs.throughput
    assert [point["throughput"]["mean"] for point in apache["levels"]] == runs.mean(axis=0).tolist()
    assert apache["peak"]["clients"] == 16
    assert apache["peak"]["highest_mean"] == runs.mean(axis=0).max()
    [average, peak] = found["comparisons"]
    assert (peak["base"], peak["other"], peak["figure"], peak["verdict"]) == (
        "apache",
        "nginx",
        "peak",
        "faster",
    )
    assert peak["limited"] == ["nginx: generator-limited"]
    assert average["percent"] == report.comparisons[0].improvements[0].percent


def test_each_figure_of_a_table_has_its_number_beside_its_text(report: Report) -> None:
    found, of_files = loaded(report), loaded(reports()[-1])
    sections = [found["summary"], of_files["summary"], *of_files["sections"], *found["sections"]]
    tables = [table for section in sections for table in section["tables"]]
    for table in tables:
        for row in table["rows"]:
            for column, cell in zip(table["columns"], row, strict=True):
                if column["numeric"] and ONE_NUMBER.fullmatch(cell["text"]):
                    assert cell["value"] is not None, (table["key"], column, cell)
                    digits = float(cell["text"].rstrip("\u00a0%").replace(",", "").replace("\u2212", "-"))
                    assert cell["value"] == pytest.approx(digits, rel=0.05, abs=0.05), (column, cell)
                elif cell["text"] == wording.NOTHING:
                    assert cell["value"] is None
    throughput = next(each for each in reversed(tables) if each["key"] == "throughput")
    assert throughput["rows"][0][2]["value"] == found["configurations"][0]["levels"][0]["throughput"]["mean"]


ONE_NUMBER = re.compile("[-+\u2212]?[0-9][0-9,]*([.][0-9]+)?(\u00a0%)?")


def test_what_is_not_known_is_null_and_not_zero() -> None:
    source = experiment({"a": Shape(2000), "b": Shape(2000)}, repetitions=1)
    report = build_from(replace(source, records=[row for row in source.records if row.configuration == "a"]))
    found = loaded(report)
    assert found["configurations"][1]["peak"] is None
    assert found["configurations"][0]["falls"] is None
    assert {row["other_value"] for row in found["comparisons"]} == {None}


def test_the_summary_in_markdown_has_findings_tables_and_warnings(report: Report) -> None:
    written = markdown.text(report)
    assert written.startswith("# Three web servers, static files\n")
    assert "**Before you quote a figure**" in written
    assert report.answer.verdict in written
    for finding in report.findings:
        assert finding.claim in written
    lines = written.splitlines()
    tables = [at for at, line in enumerate(lines) if re.fullmatch(r"\|( :?--:? \|)+", line)]
    assert len(tables) >= 4
    for at in tables:
        assert lines[at - 1].count(" | ") == lines[at].count(" | ") == lines[at + 1].count(" | ")


def in_terminal(report: Report) -> str:
    out = io.StringIO()
    text.render(report, Console(file=out, width=2000))
    return out.getvalue()


@pytest.mark.parametrize("view", [markdown.text, in_terminal], ids=["markdown", "terminal"])
def test_what_a_view_refers_to_it_has_or_it_names_the_page(
    report: Report, view: Callable[[Report], str]
) -> None:
    shown = view(report)
    titled = set(re.findall(r"(Table \d+)\. ", shown))
    referred = re.findall(r"(Table \d+)(?!\d|\. )( of report\.html)?", shown)
    if view is markdown.text:
        assert any(page for _, page in referred) and any(not page for _, page in referred)
    assert all(bool(page) == (label not in titled) for label, page in referred)
    assert "see the table" not in shown
    assert {label for label, _ in referred} <= {table.label for table in report.tables}


def test_hostile_text_is_no_markup_in_markdown() -> None:
    source = experiment({"apache": Shape(300)}, repetitions=1)
    plan = source.head.plan.model_copy(update={"title": "a | b <script> `x` [l](http://e)"})
    written = markdown.text(build_from(replace(source, head=source.head.model_copy(update={"plan": plan}))))
    assert written.startswith("# a \\| b \\<script\\> \\`x\\` \\[l\\](http://e)\n")


def test_a_report_on_paper_is_a_pdf_and_the_same_to_the_byte(report: Report) -> None:
    drawings = {figure.key: charts.svg(figure) for figure in report.figures}
    made = pdf.pages(report, document.ReportDocument.of(report).as_json(), drawings)
    assert made.startswith(b"%PDF-")
    assert made.rstrip().endswith(b"%%EOF")
    assert pdf.pages(report, document.ReportDocument.of(report).as_json(), drawings) == made


@pytest.mark.parametrize("place", range(4))
def test_what_there_is_of_a_partial_or_failed_experiment_goes_on_paper_too(place: int) -> None:
    built = reports()[place]
    drawings = {figure.key: charts.svg(figure) for figure in built.figures}
    assert pdf.pages(built, document.ReportDocument.of(built).as_json(), drawings).startswith(b"%PDF-")
    assert markdown.text(built)


def words(drawing: str) -> list[str]:
    root = ElementTree.fromstring(drawing)
    return ["".join(element.itertext()) for element in root.iter() if element.tag.endswith("text")]


def test_the_diagram_names_generator_servers_cpus_and_network(report: Report) -> None:
    [figure] = report.testbed.figures
    said = words(charts.svg(figure))
    assert said[:4] == [
        "This machine",
        "AMD EPYC 7R13, 2 logical CPUs",
        "7.45 GiB of memory",
        "Linux 6.1.0-18-amd64",
    ]
    assert said.count("HTTP, loopback") == 2
    assert {"Generator", "1 thread", "on CPU 0", "up to 32 clients", "apache", "Apache/2.4.57"} <= set(said)


def test_a_server_elsewhere_is_drawn_outside_this_machine() -> None:
    source = experiment({"own": Shape(300)}, repetitions=1, url="http://files.example.org:8080/")
    [figure] = build_from(source).testbed.figures
    assert figure.testbed is not None
    assert [link.outside for link in figure.testbed.links] == [True]
    root = ElementTree.fromstring(charts.svg(figure))
    boxes = [element for element in root.iter() if element.tag.endswith("rect")]
    frame, server = boxes[0], boxes[1]
    assert float(server.attrib["y"]) > float(frame.attrib["y"]) + float(frame.attrib["height"])
    assert "HTTP, files.example.org:8080" in words(charts.svg(figure))


def test_a_view_that_is_not_asked_for_again_does_not_stay_with_old_figures(
    report: Report, tmp_path: Path
) -> None:
    files.write_report(report, Folder.open(tmp_path), list(View))
    assert {view for view in View if (tmp_path / view).exists()} == set(View)
    (tmp_path / "figures" / "gone.svg").write_text("<svg/>", encoding="utf-8")
    files.write_report(report, Folder.open(tmp_path), [View.JSON])
    assert {view for view in View if (tmp_path / view).exists()} == {View.JSON}
    assert not (tmp_path / "figures" / "gone.svg").exists()


def test_a_published_curve_stands_beside_with_its_year_and_hardware_and_apart() -> None:
    netware = published.load("2001-etesting-netware")
    source = file_experiment({"samba": FileShape(100)}, repetitions=1)
    built = build_from(source, netware)
    section = next(found for found in built.sections if found.key == "beside")
    assert "Not comparable" in section.text[0]
    assert any("eight Pentium III" in line for line in section.text)
    for figure in section.figures:
        own, other = figure.panels
        assert {line.name for line in own.series} == {"samba"}
        assert "samba" not in {line.name for line in other.series}
        assert (own.title[:4], other.title[:4]) == ("2026", "2001")
        assert "Compaq ProLiant DL760" in figure.basis
        assert "2026: AMD EPYC 7R13, 2 logical CPUs" in figure.basis
        assert not {line.style for line in own.series} & {line.style for line in other.series}
        ElementTree.fromstring(charts.svg(figure))
    assert built.comparisons == build_from(source).comparisons


def test_a_published_report_without_such_a_curve_is_refused_in_a_sentence() -> None:
    with pytest.raises(UserError, match="has no curve in requests/s"):
        build_from(experiment({"apache": Shape(300)}, repetitions=1), published.load("2001-etesting-netware"))


def test_the_command_writes_what_is_asked_and_says_where(tmp_path: Path) -> None:
    source = experiment({"apache": Shape(300)}, clients=(1, 8), repetitions=1)
    made = source.head.created.replace(microsecond=123_456)
    head = source.head.model_copy(update={"created": made})
    folder = tmp_path / "experiment"
    with Experiment.create(folder, "name = 'x'\n", head) as kept:
        for record in source.records:
            kept.write_level(record)
    done = subprocess.run(
        [sys.executable, "-m", "serverdyno", "report", str(folder), "--pdf", "--markdown", "--json"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    for name in ("report.html", *View):
        assert f"report: {folder / 'report' / name}\n" in done.stdout
        assert (folder / "report" / name).stat().st_size > 0


def test_boxes_of_subnets_are_as_high_as_what_stands_in_them() -> None:
    lines = ("2 hosts: a-1 and a-2", "links of 100 Mbit/s", "server's leg 10.78.0.1, 100 Mbit/s")
    boxes = tuple(Box(f"Subnet {name}", lines) for name in "ab")
    links = (Link("HTTP, 10.76.0.1", Box("nginx", ("nginx/1.22.1",)), outside=False),)
    figure = Figure(
        "testbed",
        0,
        "A testbed",
        "",
        "diagram",
        "",
        (),
        testbed=DrawnTestbed(("This machine",), boxes, links),
    )
    drawn = diagram.svg(figure)
    frame, *rectangles = [
        [float(each.get(key, "")) for key in ("x", "y", "width", "height")] for each in drawn.iter("rect")
    ]
    texts = [(each.text, float(each.get("x", "")), float(each.get("y", ""))) for each in drawn.iter("text")]
    assert len(rectangles) == 3
    for x, y, width, height in rectangles:
        inside = [
            (text, at) for text, left, at in texts if x < left < x + width and y <= at < y + height + GAP
        ]
        assert len(inside) >= 2
        assert all(at <= y + height - PADDING / 2 for _, at in inside), inside
        assert y + height < frame[1] + frame[3]


@pytest.mark.parametrize("name", suites.names())
def test_the_file_of_a_suite_in_a_report_is_the_suite(name: str) -> None:
    suite = suites.load(name)
    assert suites.parse(as_toml(suite, "A comment."), "a file") == suite


def test_a_suite_that_toml_can_not_say_has_no_file_in_a_report() -> None:
    suite = Suite.model_validate(suites.load("quick-static").model_dump() | {"leave_after_errors": None})
    assert as_toml(suite, "A comment.") == ""
