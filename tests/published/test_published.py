"""The published reports that are shipped: they load, are consistent, and can be drawn and shown on the command line."""

from __future__ import annotations

import csv
import json
import re
from itertools import pairwise
from pathlib import Path

import pytest

from serverdyno import published
from serverdyno.errors import PlanError, UserError
from serverdyno.published import parse_claims, printed
from serverdyno.published.model import NotChecked, Order, PairedOrder, Same
from serverdyno.published.pictures import FEWEST_POINTS, MOST_SERIES, pictures
from serverdyno.published.tables import ClaimError, number, of_csv
from support.dyno_process import Home
from support.netware_2001 import CLIENTS, CURVES

NAMES = [
    "1999-mindcraft-linux",
    "2001-etesting-netware",
    "2002-etesting-sfu",
    "2003-veritest-iis",
    "2004-veritest-samba",
]
NETWARE = "2001-etesting-netware"


def test_all_five_reports_are_there() -> None:
    assert published.names() == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_report_says_where_it_is_from_and_what_is_doubtful(name: str) -> None:
    report = published.load(name)
    assert report.name == name
    assert str(report.meta.citation.year) == name.partition("-")[0]
    assert report.meta.hardware.servers
    assert report.meta.doubts
    assert all(table.columns[0] == "figure" for table in report.tables)
    assert all(table.rows for table in report.tables)


@pytest.mark.parametrize("name", NAMES)
def test_every_claim_is_one_that_the_language_reads(name: str) -> None:
    for claim in published.load(name).claims:
        if not isinstance(claim.rule, NotChecked | Order | PairedOrder | Same) and claim.rule.kind not in (
            "rising",
            "falling",
        ):
            assert printed.read(claim.claimed, claim.unit), claim.id


def test_there_are_more_than_a_hundred_claims_and_none_twice() -> None:
    ids = [(name, claim.id) for name in NAMES for claim in published.load(name).claims]
    assert len(ids) == len(set(ids)) > 100


def test_the_overall_averages_that_netware_s_report_prints_are_those_of_its_mixes() -> None:
    # They agree to one unit of the last digit, because the report rounds some and truncates others.
    tables = published.load(NETWARE).tables
    averages = tables["averages"].select({})
    assert len(averages) == 24
    for row in averages:
        where = {key: str(row[key]) for key in ("server", "processors", "oplocks")}
        values = [number(mix["mbits_per_s"]) for mix in tables["mixes"].select(where)]
        assert len(values) == 16
        mean = sum(value for value in values if value is not None) / 16
        assert abs(mean - float(str(row["mbits_per_s"]))) < 0.001, row


def test_the_peaks_that_netware_s_report_prints_bold_are_the_highest_of_their_curves() -> None:
    tables = published.load(NETWARE).tables
    peaks = tables["peaks"].select({})
    assert len(peaks) == 18
    for row in peaks:
        curve = tables["mixes"].select({key: str(row[key]) for key in ("server", "processors", "oplocks")})
        highest = max(curve, key=lambda mix: float(str(mix["mbits_per_s"])))
        assert (row["clients"], row["mbits_per_s"]) == (highest["clients"], highest["mbits_per_s"])


def test_netware_s_curves_are_those_that_the_rules_of_analysis_are_tested_with() -> None:
    # The same figures are in two places, which must not diverge.
    mixes = published.load(NETWARE).tables["mixes"]
    assert len(mixes.rows) == 16 * len(CURVES)
    for (server, processors, oplocks), values in CURVES.items():
        for clients, value in zip(CLIENTS, values, strict=True):
            rows = mixes.select(
                {"server": server, "processors": processors, "oplocks": oplocks, "clients": clients}
            )
            assert [number(row["mbits_per_s"]) for row in rows] == [value]


@pytest.mark.parametrize(
    ("claim", "problem"),
    [
        ('rule = { kind = "half_as_much" }', "half_as_much"),
        ('rule = { table = "peaks" }', "column: missing"),
        ('rule = { kind = "ratio", of = { kind = "stated", value = 1, place = "x" } }', "to: missing"),
        ('rule = { kind = "cannot_be_checked", why = "x", because = "y" }', "because"),
    ],
)
def test_a_claim_that_is_wrongly_written_is_refused_with_its_place(claim: str, problem: str) -> None:
    text = f'[[claims]]\nid = "a"\nplace = "p"\nsays = "s"\nclaimed = "1"\n{claim}\n'
    with pytest.raises(PlanError, match=re.escape(problem)):
        parse_claims(text, "claims.toml")


def test_two_claims_of_one_id_are_refused() -> None:
    claim = '[[claims]]\nid = "a"\nplace = "p"\nsays = "s"\nclaimed = "1"\n'
    claim += 'rule = { kind = "cannot_be_checked", why = "w" }\n'
    with pytest.raises(PlanError, match="two claims"):
        parse_claims(claim * 2, "claims.toml")


def test_a_table_whose_rows_are_not_as_long_as_its_head_is_refused() -> None:
    with pytest.raises(ClaimError, match="3 cells, but 2 columns"):
        of_csv("t", "a,b\n1,2,3\n")


def test_an_empty_cell_is_not_zero() -> None:
    table = of_csv("t", "server,percent\nA,\nB,0\n")
    assert [number(row["percent"]) for row in table.select({})] == [None, 0.0]
    assert len(table.select({"percent": ""})) == 1
    assert len(table.select({"percent": "0.0"})) == 1


def test_an_unknown_report_names_those_there_are() -> None:
    with pytest.raises(UserError, match="did you mean 2001-etesting-netware"):
        published.load("2001-netware")


@pytest.mark.parametrize("name", NAMES)
def test_pictures_show_every_curve_and_fit_their_legend(name: str) -> None:
    for picture in pictures(published.load(name)):
        assert picture.lines
        assert len({line.name for line in picture.lines}) == len(picture.lines), picture.title
        if picture.kind == "lines":
            assert len(picture.lines) <= MOST_SERIES
            for line in picture.lines:
                assert len(line.points) >= FEWEST_POINTS
                assert all(one[0] < then[0] for one, then in pairwise(line.points))


def test_netware_s_report_is_drawn_as_ten_figures_of_curves() -> None:
    drawn = pictures(published.load(NETWARE))
    curves = [picture for picture in drawn if picture.kind == "lines" and picture.unit == "Mbit/s"]
    figures = [picture.figures[0] for picture in curves]
    assert figures == ["10", "12", "14", "16", "18", "20", "22", "24", "26", "29", "29"]
    assert sum(len(picture.lines) for picture in curves) == 26
    assert curves[0].lines[0].name == "NetWare 6"
    assert curves[0].lines[0].peak == (8, 858.055)


def test_names_leave_out_what_another_part_implies_and_keep_the_column_where_it_is_needed() -> None:
    drawn = {picture.title: picture for picture in pictures(published.load("2003-veritest-iis"))}
    names = [line.name for line in drawn["Figures 2 and 14: static"].lines]
    assert names[0] == "IIS 6.0, DL380, 2 processors"  # on Windows, as all of IIS
    assert "TUX, DL760, 1 processor" in names
    assert len(set(names)) == len(names)
    peaks = {picture.title: picture for picture in pictures(published.load("2004-veritest-samba"))}[
        "Figure 14"
    ]
    over = drawn["Figures 2 and 14, in percent: static, IIS 6.0"].lines
    assert over[0].name == "over TUX, DL380, 2 processors"
    assert any("software update installed" in line.name for line in peaks.lines)


def test_bars_that_are_printed_twice_are_drawn_once() -> None:
    titles = [picture.title for picture in pictures(published.load("2003-veritest-iis"))]
    assert "Figures 2 and 14: static" in titles
    assert not any(title.startswith("Figure 14") for title in titles)


def test_the_command_lists_every_report(home: Home) -> None:
    done = home.here("published")
    assert done.returncode == 0
    for name in NAMES:
        assert name in done.stdout


def test_the_command_shows_curves_and_writes_a_page(home: Home, tmp_path: Path) -> None:
    page = tmp_path / "netware.html"
    done = home.here("published", "show", NETWARE, "--html", page)
    assert done.returncode == 0, done.stderr
    assert re.search(r"NetWare 6 +[▁▂▃▄▅▆▇█]{16}  1,026\.833 at 8", done.stdout)
    assert "not comparable" not in done.stdout
    assert "No figure of Serverdyno is comparable" in done.stdout
    assert str(page) in done.stderr
    html = page.read_text(encoding="utf-8")
    assert html.count("<svg") == len(pictures(published.load(NETWARE)))
    assert "1026.833" in html
    assert "Compaq ProLiant DL760" in html
    assert "http://" not in re.sub(r'xmlns(:\w+)?="[^"]*"', "", html)


def test_the_command_says_so_where_a_page_cannot_be_written(home: Home, tmp_path: Path) -> None:
    done = home.here("published", "show", NAMES[0], "--html", tmp_path / "no" / "page.html")
    assert done.returncode == 2
    assert "can't write" in done.stderr


def test_help_of_the_verb_shows_an_example(home: Home) -> None:
    assert re.search(r"^ +Example: dyno published$", home.here("published", "--help").stdout, re.MULTILINE)


def test_audit_prints_a_list_with_one_object_a_claim(home: Home) -> None:
    done = home.here("audit", "all", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found) == sum(len(published.load(name).claims) for name in NAMES)
    for one in found:
        assert set(one) == {"id", "report", "place", "claimed", "computed", "verdict", "reason"}
        assert isinstance(one["computed"], float | int | str | None)
        assert all(isinstance(one[key], str) and one[key] for key in set(one) - {"computed"})


def test_audit_of_one_report_says_what_does_not_follow_and_writes_a_page(home: Home, tmp_path: Path) -> None:
    page = tmp_path / "audit.html"
    done = home.here("audit", NETWARE, "--html", page)
    assert done.returncode == 0, done.stderr
    assert (
        "is 234.691; the printed figure allows 243.6905 to 243.6915; two neighbouring digits are swapped"
        in done.stdout
    )
    assert "1999-mindcraft-linux" not in done.stdout
    assert page.read_text(encoding="utf-8").count("old-dip-3-before") == 1


def test_audit_of_an_unknown_report_is_the_users_mistake(home: Home) -> None:
    done = home.here("audit", "2005-nobody")
    assert done.returncode == 2
    assert "Known:" in done.stderr


def test_data_files_are_plain_csv_without_blanks_around_cells() -> None:
    folder = Path(published.__file__).parent
    for path in sorted(folder.glob("*/tables/*.csv")):
        with path.open(encoding="utf-8", newline="") as opened:
            for row in csv.reader(opened):
                assert [cell.strip() for cell in row] == row, path
