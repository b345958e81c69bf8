"""Consistency of the published tables: percentages, repeated values, and claims that don't follow.

Percentages are compared with their peaks, and values that are printed twice with each other. Claims that don't follow
from the tables are listed by name.

This is not the audit. Every value was copied by hand. A wrong digit is found here unless it is also in the percentage.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import pytest

import serverdyno
from serverdyno.published import load
from serverdyno.published.audit import ClaimVerdict, audit

PUBLISHED = Path(serverdyno.__file__).parent / "published"
SAMBA, SFU, IIS = "2004-veritest-samba", "2002-etesting-sfu", "2003-veritest-iis"

Row = dict[str, str]


def rows(report: str, table: str) -> list[Row]:
    with (PUBLISHED / report / "tables" / f"{table}.csv").open(encoding="utf-8", newline="") as opened:
        return list(csv.DictReader(opened))


def only(found: Sequence[Row], **where: str) -> Row:
    matching = [row for row in found if all(row[column] == value for column, value in where.items())]
    assert len(matching) == 1, (where, matching)
    return matching[0]


def percent(better: str, worse: str) -> int:
    return round(100 * (float(better) / float(worse) - 1))


def test_samba_percentages_follow_from_the_peaks() -> None:
    peaks, improvements = rows(SAMBA, "peaks"), rows(SAMBA, "improvements")
    assert (len(peaks), len(improvements)) == (8, 8)
    for row in improvements:
        better = only(
            peaks, server=row["server"], system=row["system"], software_update=row["software_update"]
        )
        worse = only(
            peaks,
            server=row["server"],
            system=row["compared_with"],
            software_update=row["compared_software_update"],
            strict_sync=row["compared_strict_sync"],
        )
        assert percent(better["mbits_per_s"], worse["mbits_per_s"]) == int(row["percent"]), row


def test_iis_percentages_follow_from_the_peaks() -> None:
    peaks = rows(IIS, "peaks")
    stated = [row for row in rows(IIS, "improvements") if row["percent"]]
    assert len(stated) == 2 * 33  # 11 in each of three tables, all printed twice
    for row in stated:
        place = {column: row[column] for column in ("figure", "content", "server", "processors")}
        better = only(peaks, web_server=row["web_server"], **place)
        worse = only(peaks, web_server=row["compared_web_server"], **place)
        assert percent(better["requests_per_s"], worse["requests_per_s"]) == int(row["percent"]), row


def test_isapi_percentages_follow_from_the_peaks() -> None:
    peaks, improvements = rows(IIS, "isapi"), rows(IIS, "isapi_improvements")
    assert len(improvements) == 2 * 10
    for row in improvements:
        place = {column: row[column] for column in ("figure", "server", "processors")}
        better = only(peaks, content=row["content"], **place)
        worse = only(peaks, content=row["compared_content"], **place)
        assert percent(better["requests_per_s"], worse["requests_per_s"]) == int(row["percent"]), row


@pytest.mark.parametrize(
    ("report", "table", "printed_again"),
    [
        (IIS, "peaks", {"2": "14", "4": "21", "8": "30"}),
        (IIS, "improvements", {"2": "14", "4": "21", "8": "30"}),
        (IIS, "isapi", {"6": "23", "10": "32"}),
        (IIS, "isapi_improvements", {"6": "23", "10": "32"}),
        (SFU, "bonnie", {"1": "5", "2": "6"}),
        (SFU, "seeks", {"3": "7"}),
    ],
)
def test_figures_printed_twice_agree(report: str, table: str, printed_again: dict[str, str]) -> None:
    found = rows(report, table)
    first = [
        row | {"figure": printed_again[row["figure"]]} for row in found if row["figure"] in printed_again
    ]
    again = [row for row in found if row["figure"] in printed_again.values()]
    assert first
    assert len(first) + len(again) == len(found)
    assert sorted(map(str, first)) == sorted(map(str, again))


def test_the_only_peak_with_two_values_is_the_one_in_doubt() -> None:
    # Only IIS also appears in the ISAPI tables. One of its ten peaks differs there, in both printings.
    peaks = rows(IIS, "peaks")
    differing = set()
    for row in rows(IIS, "isapi"):
        if row["content"] not in {"cgi", "ssl/cgi"}:
            continue
        figure = {"6": "4", "10": "8", "23": "21", "32": "30"}[row["figure"]]
        place = {column: row[column] for column in ("content", "server", "processors")}
        elsewhere = only(peaks, figure=figure, web_server="IIS 6.0", **place)["requests_per_s"]
        if elsewhere != row["requests_per_s"]:
            differing.add((*place.values(), elsewhere, row["requests_per_s"]))
    assert differing == {("ssl/cgi", "DL760", "4", "2214", "2268")}


OTHER_BASE = ClaimVerdict.OTHER_BASE


@pytest.mark.parametrize(
    ("report", "not_following", "not_checked"),
    [
        (SAMBA, {}, 28),
        (
            SFU,
            {
                "summary-read-block-3-2": ClaimVerdict.CONTRADICTS,
                "results-read-block-3-2": ClaimVerdict.CONTRADICTS,
                "names-sfu-2-sfu-3": OTHER_BASE,
                "files-sfu-2-sfu-3": ClaimVerdict.CONTRADICTS,
            },
            8,
        ),
        (
            IIS,
            {
                "key-4-tux": ClaimVerdict.CONTRADICTS,
                "summary-static-tux-decline": OTHER_BASE,
                "results-static-tux-decline": OTHER_BASE,
                "figure-10-ssl-cgi-again-dl760-4p": ClaimVerdict.CONTRADICTS,
                "figure-32-ssl-cgi-again-dl760-4p": ClaimVerdict.CONTRADICTS,
            },
            7,
        ),
    ],
)
def test_every_claim_that_does_not_follow_is_a_known_one(
    report: str, not_following: dict[str, ClaimVerdict], not_checked: int
) -> None:
    # Each was compared with the printed text: the report contradicts itself, and our copy is right.
    audited = audit(load(report))
    verdicts = {
        found.claim.id: found.verdict for found in audited if found.verdict is not ClaimVerdict.FOLLOWS
    }
    unchecked = [claim_id for claim_id, verdict in verdicts.items() if verdict is ClaimVerdict.NOT_CHECKED]
    assert {key: verdict for key, verdict in verdicts.items() if key not in unchecked} == not_following
    assert len(unchecked) == not_checked
