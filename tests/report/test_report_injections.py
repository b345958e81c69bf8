"""Text from records, notes and servers in every view: displayed as text, and never executed."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt
from rich.console import Console

from serverdyno import clean
from serverdyno.report import View, write_report
from serverdyno.report.build import build_from
from serverdyno.report.figures.raw import RawTable
from serverdyno.report.model import Report
from serverdyno.report.source import Source
from serverdyno.report.views import csv as report_csv
from serverdyno.report.views import document, html, markdown, text
from serverdyno.store.folder import Folder
from serverdyno.store.note import RunNote
from serverdyno.store.records import ErrorRow, SecondRow
from support.synthetic_experiment import Shape, experiment

INJECTIONS = (
    "<script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    "</style><img src=x onerror=alert(1)>",
    "<img src='http://evil.example/x.png'>",
    '"><svg onload=alert(1)>',
    "' onmouseover='alert(1)",
    "<iframe src=javascript:alert(1)></iframe>",
    "<!-- open comment",
    "]]> <![CDATA[ x",
    "<?xml version='1.0'?><!DOCTYPE x [<!ENTITY e SYSTEM 'file:///etc/passwd'>]>&e;",
    "&lt;b&gt; &amp; &#60;i&#62;",
    "{{ 7 * 7 }} {% raw %} {# x #}",
    "![picture](http://evil.example/x.png)",
    "[link](javascript:alert(1))",
    "[reference]: http://evil.example",
    "<http://evil.example>",
    "`code` ``more`` ```",
    "# heading\n## another",
    "| a | b |\n|---|---|",
    "*bold* _slanted_ ~~gone~~ __strong__",
    "> quoted\n> more",
    "- item\n1. item",
    "$x^2$ and \\(y\\)",
    "line one\nline two\r\nline three\rover the line",
    "\x1b[31mred\x1b[0m and \x1b]0;title\x07 and \x1b[2J",
    "\x9b31m eight-bit control",
    "nul \x00 bell \x07 back \x08 form \x0c delete \x7f",
    "\u202eesrever\u202c \u2066isolated\u2069",
    "\u2028line separator\u2029paragraph separator",
    "lone \ud800 and \udfff surrogates",
    "\ufeff\ufffe\uffff\U0001ffff no characters",
    '#set page(width: 1pt) #panic("typst") @label <x> $ / ]',
    '#read("/etc/passwd") ]#eval("1")[',
    "[red]rich markup[/red] [link=http://evil.example]x[/link]",
    '=HYPERLINK("http://evil.example")',
    "%s %d {0} {name} {reason!r} \\1 \\g<0>",
    "x" * 10_000_000,
)


@pytest.fixture(scope="module")
def hostile() -> Source:
    """Return an experiment with hostile text in every place that a stranger can fill."""
    source = experiment({"apache": Shape(2000), "nginx": Shape(3000)}, repetitions=1)
    all_of_it = "\n".join(INJECTIONS[:-1])
    texts = {f"{place} {injection[:200]}": injection for place, injection in enumerate(INJECTIONS)}
    plan = source.head.plan.model_copy(update={"title": " ".join(INJECTIONS[:-1]), "name": INJECTIONS[0]})
    suite = source.head.suite.model_copy(
        update={"title": INJECTIONS[2], "source": all_of_it, "certainty": texts}
    )
    settings = {f"key {injection[:200]}": injection for injection in INJECTIONS}
    configurations = [
        replace(each, server=INJECTIONS[24], settings=settings) for each in source.head.configurations
    ]
    head = source.head.model_copy(
        update={
            "plan": plan,
            "suites": [suite],
            "configurations": configurations,
            "tool_version": INJECTIONS[24],
        }
    )
    records = [
        replace(
            record,
            name=INJECTIONS[24],
            errors=[ErrorRow("server", injection, 1, 1, injection) for injection in INJECTIONS],
            by_operation=[
                replace(row, operation=INJECTIONS[place]) for place, row in enumerate(record.by_operation, 24)
            ],
        )
        for record in source.records
    ]
    note = RunNote(state="failed", reason=all_of_it, crashes=[*INJECTIONS])
    described = {"version": INJECTIONS[24], "command": [*INJECTIONS], "files": texts, "notes": [*INJECTIONS]}
    return replace(
        source,
        head=head,
        records=records,
        disclosure={
            "host": {"cpu": {"model": INJECTIONS[26], "logical": 2}, "system": {"kernel": INJECTIONS[29]}},
            "servers": {"apache": {**described, "settings": settings}, **{"nginx": described}},
        },
        run_notes={1: note, 2: note.model_copy(update={"reason": INJECTIONS[-1]})},
        damaged=tuple(INJECTIONS),
        set_aside=(f"runs/001/level-01.parquet {all_of_it}",),
    )


@pytest.fixture(scope="module")
def report(hostile: Source) -> Report:
    return build_from(hostile)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def unsafe(shown: str) -> set[str]:
    """Return the characters that no view may contain."""
    return set(clean.UNSAFE.findall(shown))


def check_elements(page: str, expected: set[str]) -> None:
    tags = Tags()
    tags.feed(page)
    assert {tag for tag, _ in tags.found} <= expected
    for _, attributes in tags.found:
        assert not [name for name in attributes if name.startswith("on")]
        assert not [
            name
            for name in ("src", "href", "xlink:href")
            if not (attributes.get(name) or "data:").startswith(("data:", "#"))
        ]


def test_the_page_holds_no_element_of_a_text(report: Report) -> None:
    plain = build_from(experiment({"apache": Shape(2000)}, repetitions=1))
    ours = Tags()
    ours.feed(html.page(plain, {figure.key: "" for figure in plain.figures}))
    page = html.page(report, {figure.key: "" for figure in report.figures})
    known = {tag for tag, _ in ours.found} | {"aside", "details", "summary", "pre", "sup"}
    check_elements(page, known)
    assert not unsafe(page)
    assert "&lt;script&gt;alert(1)" in page


def test_drawings_and_paper_are_made_whatever_the_texts(
    report: Report, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("report")
    write_report(report, Folder.open(folder), [View.PDF])
    assert (folder / "report.pdf").read_bytes().startswith(b"%PDF")
    for path in (folder / "figures").glob("*.svg"):
        drawing = path.read_text(encoding="utf-8")
        assert not unsafe(drawing)
        names = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(drawing).iter()}
        assert not names & {"script", "foreignObject", "image", "iframe"}
        check_elements(drawing, names)


def test_markdown_shows_texts_and_makes_nothing_of_them(report: Report) -> None:
    written = markdown.text(report)
    rendered = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(written)
    ours = {"h1", "h2", "p", "ul", "li", "strong", "em", "table", "thead", "tbody", "tr", "th", "td"}
    check_elements(rendered, ours)
    assert not unsafe(written)
    assert rendered.count("<h1>") == 1


def test_the_terminal_is_sent_no_control_but_our_colours(report: Report) -> None:
    screen = io.StringIO()
    text.render(report, Console(file=screen, width=100, force_terminal=True, color_system="standard"))
    sent = re.sub(r"\x1b\[[\d;]*m", "", screen.getvalue())
    assert not unsafe(sent)
    assert "[red]rich markup[/red]" in sent.replace("\n", " ")


def test_json_and_csv_hold_texts_that_any_reader_takes(report: Report) -> None:
    loaded = json.loads(document.ReportDocument.of(report).as_json())
    assert loaded["warnings"]
    assert not unsafe(document.ReportDocument.of(report).as_json().decode())
    for table in report.raw:
        written = report_csv.text(table)
        assert not unsafe(written.replace("\r\n", "\n"))
        assert len(list(csv.reader(io.StringIO(written)))) == len(table.rows) + 1


FORMULAS = (
    '=HYPERLINK("http://evil.example")',
    "=1+1",
    "+1+cmd|' /C calc'!A0",
    "-2+3+cmd|' /C calc'!A0",
    "@SUM(1;2)",
    "\t=1+1",
    "\r=1+1",
    "\n=1+1",
    "\uff1d1+1",
    "-",
)


@pytest.mark.parametrize("formula", FORMULAS, ids=ascii)
def test_a_spreadsheet_computes_no_text(formula: str) -> None:
    written = report_csv.text(RawTable("t", "t", (formula, "b"), ((formula, 1), ("a", formula))))
    read = list(csv.reader(io.StringIO(written, newline="")))
    assert read == [[f"'{formula}", "b"], [f"'{formula}", "1"], ["a", f"'{formula}"]]


def test_numbers_and_plain_texts_stand_in_a_csv_file_as_they_are() -> None:
    cells = (-1, -2.5, None, float("-inf"), "-3.5", "+4", "a=b", "a@b", "'quoted'", "")
    written = report_csv.text(RawTable("t", "t", tuple(f"c{place}" for place in range(len(cells))), (cells,)))
    assert list(csv.reader(io.StringIO(written)))[1] == ["" if cell is None else str(cell) for cell in cells]


def test_no_table_of_a_report_has_a_formula(report: Report) -> None:
    for table in report.raw:
        rows = csv.reader(io.StringIO(report_csv.text(table), newline=""))
        assert not [cell for row in rows for cell in row if report_csv.is_formula(cell)]


def test_a_line_of_megabytes_is_shortened_and_says_so(report: Report) -> None:
    pages = [html.page(report, {figure.key: "" for figure in report.figures}), markdown.text(report)]
    assert all("x" * 5000 not in page for page in pages)
    assert "(10,000,000 characters)" in pages[0]
    assert all(len(warning) < 100_000 for warning in report.warnings)


@pytest.mark.parametrize("injection", INJECTIONS, ids=lambda text: ascii(text[:30]))
def test_a_text_is_cleaned_for_each_view(injection: str) -> None:
    assert not unsafe(clean.text(injection))
    assert "\n" not in clean.line(injection) + clean.markdown(injection) + clean.quoted(injection)
    assert len(clean.line(injection)) <= clean.MOST_LINE + 40
    assert len(clean.quoted(injection)) <= clean.MOST_QUOTED + 40
    clean.text(injection).encode()
    if not unsafe(injection) and "\r" not in injection and len(injection) < 1000:
        assert clean.text(injection) == injection


def test_rows_of_numbers_are_not_searched_for_text() -> None:
    # A large experiment has a million rows.
    rows = [SecondRow(second, 1, 1, 0) for second in range(3)]
    assert clean.everything(rows) is rows
    errors = [ErrorRow("server", "x", 1, 1, "\x1b[2J")]
    assert clean.everything(errors)[0].example == f"{clean.REPLACEMENT}[2J"
