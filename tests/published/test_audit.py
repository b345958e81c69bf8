"""The audit of claims: what a printed value admits, what each verdict requires, and that wrong claims don't pass.

Also how often chance explains a wrong claim, and that our own report passes the audit of published reports.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serverdyno import published
from serverdyno.published import printed
from serverdyno.published.audit import Audited, ClaimVerdict, audit, audit_claims
from serverdyno.published.model import Claim, Course, EachOf, Order, PairedOrder
from serverdyno.published.tables import Cell, ClaimError, Tables, of_columns, of_csv
from serverdyno.report.build import build_from
from serverdyno.report.source import Source
from support.places import ROOT
from support.synthetic_experiment import Shape, experiment

MINUS = "\N{MINUS SIGN}"
REPORTS = {name: published.load(name) for name in published.names()}
AUDITED = {name: audit(report) for name, report in REPORTS.items()}

# Follows; with another rounding or base; contradicts; can't be checked. A ratchet: a change here changes what we say
# about somebody's report.
COUNTS = {
    "1999-mindcraft-linux": (17, 0, 1, 13),
    "2001-etesting-netware": (151, 10, 9, 6),
    "2002-etesting-sfu": (63, 1, 3, 8),
    "2003-veritest-iis": (147, 2, 3, 7),
    "2004-veritest-samba": (51, 0, 0, 28),
}
NOTABLE = {
    ("2001-etesting-netware", "figure-1-percent"): (ClaimVerdict.CONTRADICTS, "is 99.00"),
    ("2001-etesting-netware", "figure-2-percent"): (ClaimVerdict.CONTRADICTS, "is 72.76"),
    ("2001-etesting-netware", "off-netware-average"): (ClaimVerdict.CONTRADICTS, "is 267.8109"),
    ("2001-etesting-netware", "old-new-off"): (ClaimVerdict.CONTRADICTS, "is 165.7808"),
    ("2001-etesting-netware", "key-4-windows-down"): (
        ClaimVerdict.OTHER_BASE,
        "relative to the lower figure",
    ),
    ("2001-etesting-netware", "figure-2-netware-lowest"): (ClaimVerdict.CONTRADICTS, "858.055"),
    ("2001-etesting-netware", "old-dip-3-before"): (ClaimVerdict.CONTRADICTS, "digits are swapped"),
    ("2001-etesting-netware", "key-2-percent"): (ClaimVerdict.FOLLOWS, "116.82"),
    ("2003-veritest-iis", "key-4-tux"): (ClaimVerdict.CONTRADICTS, "is 63.69"),
    ("2003-veritest-iis", "summary-static-tux-decline"): (
        ClaimVerdict.OTHER_BASE,
        "relative to the lower figure",
    ),
    ("1999-mindcraft-linux", "memory-linux"): (ClaimVerdict.CONTRADICTS, "is 960"),
}

PEAKS = """figure,server,processors,mbits_per_s
1,A,1,100
1,A,2,150
1,B,1,50
1,B,2,60
"""
CURVES = """figure,server,clients,mbits_per_s
2,A,1,40
2,A,8,100
2,A,16,75.4
2,B,1,20
2,B,8,
2,B,16,61.3
"""
TABLES = Tables([of_csv("peaks", PEAKS), of_csv("curves", CURVES)])


def cell(server: str, processors: int) -> dict[str, Any]:
    return {
        "table": "peaks",
        "column": "mbits_per_s",
        "where": {"server": server, "processors": processors},
    }


def curve(kind: str, server: str, **where: Any) -> dict[str, Any]:
    return {
        "kind": kind,
        "table": "curves",
        "column": "mbits_per_s",
        "where": {"server": server} | where,
    }


def claim(claimed: str, rule: Mapping[str, Any], unit: str = "percent", name: str = "a") -> Claim:
    return Claim.model_validate(
        {"id": name, "place": "p", "says": "s", "claimed": claimed, "unit": unit, "rule": rule}
    )


def verdict(claimed: str, rule: Mapping[str, Any], unit: str = "percent") -> Audited:
    return audit_claims([claim(claimed, rule, unit)], TABLES, "r")[0]


@pytest.mark.parametrize(
    ("text", "unit", "admitted", "refused"),
    [
        ("46", "percent", [45.5, 46.4, 46.5], [45.4, 46.6]),
        ("98.55", "percent", [98.545, 98.555], [98.556, 99.0]),
        ("60,000", "files", [59_999.6], [59_999.4]),
        ("approximately 46", "percent", [43.3, 48.7], [43.1, 48.9]),
        ("about 3 times", "times", [2.4, 3.6], [2.3, 3.7]),
        ("almost twice", "times", [1.8, 1.99, 2.0], [1.79, 2.01]),
        ("nearly 3.5", "seconds", [3.2], [3.647]),
        ("over 13", "percent", [13.1, 20.0], [13.0, 12.9]),
        ("at least 13", "percent", [13.0], [12.9]),
        ("less than 5", "percent", [4.9], [5.0]),
        ("no more than 15", "clients", [15.0, 1.0], [16.0]),
        ("up to 339.4", "percent", [339.41], [339.5, 300.0]),
        ("8 to 12", "clients", [8.0, 12.0], [7.0, 13.0]),
        ("between 24 and 61", "percent", [23.5, 61.5], [23.0, 62.0]),
        ("sixth", "processors", [6.0], [5.0]),
        ("1.5 minutes", "seconds", [87.5, 92.5], [86.0, 94.0]),
        ("16 min 26.415 s", "seconds", [986.4151], [986.5]),
    ],
)
def test_a_printed_value_admits_what_its_words_say(
    text: str, unit: str, admitted: Sequence[float], refused: Sequence[float]
) -> None:
    number = printed.read(text, unit)
    assert number is not None
    assert [value for value in admitted if not number.admits(value)] == []
    assert [value for value in refused if number.admits(value)] == []


@pytest.mark.parametrize("text", ["higher", "about 3 bananas", "12 13", "", "slightly over", "3 minutes"])
def test_a_text_with_a_word_that_is_not_known_is_no_number(text: str) -> None:
    assert printed.read(text, "percent") is None


@given(st.floats(0.01, 1e6), st.integers(0, 4))
def test_a_value_is_admitted_by_its_own_rounding_and_not_by_the_next_but_one(
    value: float, places: int
) -> None:
    number = printed.read(f"{value:.{places}f}", "percent")
    assert number is not None
    assert number.admits(value)
    assert not number.admits(value + 1.01 * number.step)
    assert not number.admits(value - 1.01 * number.step)


def improvement(of: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "percent_improvement", "of": of, "over": over}


def decline(start: dict[str, Any], end: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "percent_decline", "from": start, "to": end}


def ratio(of: dict[str, Any], to: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "ratio", "of": of, "to": to}


def greater(of: dict[str, Any], *than: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "greater", "of": of, "than": list(than)}


def several(kind: str, *of: dict[str, Any]) -> dict[str, Any]:
    return {"kind": kind, "of": list(of)}


A1, A2, B1, B2 = cell("A", 1), cell("A", 2), cell("B", 1), cell("B", 2)
CURVE = {"table": "curves", "column": "mbits_per_s"}
PAIRED = CURVE | {"pairs_by": ["clients"]}
OF_A, OF_B = {"server": "A"}, {"server": "B"}
HALF_A_MBIT = {"kind": "stated", "value": 0.5, "place": "x"}
FOLLOWS, BASE = ClaimVerdict.FOLLOWS, ClaimVerdict.OTHER_BASE
CONTRADICTS, UNCHECKED = ClaimVerdict.CONTRADICTS, ClaimVerdict.NOT_CHECKED


@pytest.mark.parametrize(
    ("claimed", "unit", "rule", "wanted", "reason"),
    [
        ("50", "percent", improvement(A2, A1), FOLLOWS, "is 50"),
        ("33", "percent", improvement(A2, A1), BASE, "higher figure"),
        ("200", "percent", improvement(A1, B1), BASE, "ratio in percent"),
        ("33", "percent", decline(A2, A1), FOLLOWS, "is 33.33"),
        ("50", "percent", decline(A2, A1), BASE, "lower figure"),
        ("2 times", "times", ratio(A1, B1), FOLLOWS, "is 2"),
        ("1.5", "times", ratio(A2, B2), BASE, "times more"),
        ("71", "Mbit/s", curve("mean", "A"), BASE, "cut off"),
        ("72.7", "Mbit/s", curve("mean", "A"), CONTRADICTS, "is 71.8"),
        ("over 150", "Mbit/s", A2, BASE, "only after rounding"),
        ("150.0", "Mbit/s", A1, CONTRADICTS, "is 100"),
        (
            "8",
            "clients",
            CURVE | {"kind": "position_of_highest", "at": "clients", "where": OF_A},
            FOLLOWS,
            "is 8",
        ),
        (
            "1",
            "clients",
            CURVE | {"kind": "position_of_lowest", "at": "clients", "where": OF_A},
            FOLLOWS,
            "is 1",
        ),
        (
            "16",
            "clients",
            CURVE | {"kind": "position_of_highest", "at": "clients", "where": OF_A},
            CONTRADICTS,
            "is 8",
        ),
        ("20", "Mbit/s", curve("value", "B", clients=8), UNCHECKED, "not stated"),
        ("2", "mixes", curve("count", "A"), CONTRADICTS, "is 3"),
        ("2", "mixes", curve("count", "B"), FOLLOWS, "is 2"),
        ("1", "mixes", curve("count", "B") | {"above": 50}, FOLLOWS, "is 1"),
        ("1", "mixes", curve("count", "B") | {"above": 20}, FOLLOWS, "is 1"),
        ("81.8", "Mbit/s", several("sum_of", curve("sum", "B"), HALF_A_MBIT), FOLLOWS, "is 81.8"),
        ("50 to 150", "Mbit/s", several("each_of", A1, A2, B1), FOLLOWS, "all 3"),
        ("60 to 150", "Mbit/s", several("each_of", A1, A2, B1), CONTRADICTS, "1 of 3"),
        ("higher", "", greater(A1, B1, B2), FOLLOWS, "2 of 2"),
        ("higher", "", greater(A1, B1, A2), CONTRADICTS, "1 of 2"),
        ("for the most part", "", greater(A1, B1, A2), CONTRADICTS, "1 of 2"),
        ("for the most part", "", greater(A1, B1, A2, B2), FOLLOWS, "2 of 3"),
        ("lower", "", greater(A1, B1) | {"kind": "lower"}, CONTRADICTS, "0 of 1"),
        ("rising", "", CURVE | {"kind": "rising", "along": "clients", "where": OF_B}, FOLLOWS, "1 of 1"),
        (
            "rising",
            "",
            CURVE | {"kind": "rising", "along": "clients", "where": OF_A},
            CONTRADICTS,
            "clients 8 to 16",
        ),
        ("all", "", PAIRED | {"kind": "greater_in_each", "greater": OF_A, "lower": OF_B}, FOLLOWS, "2 of 2"),
        (
            "all",
            "",
            PAIRED | {"kind": "greater_in_each", "greater": OF_B, "lower": OF_A},
            CONTRADICTS,
            "0 of 2",
        ),
        (
            "all",
            "",
            PAIRED | {"kind": "greater_in_each", "greater": OF_A, "lower": OF_A},
            CONTRADICTS,
            "0 of 3",
        ),
        (
            "100",
            "percent",
            PAIRED | {"kind": "greatest_percent_improvement", "of": OF_A, "over": OF_B},
            FOLLOWS,
            "",
        ),
        (
            "23",
            "percent",
            PAIRED | {"kind": "least_percent_improvement", "of": OF_A, "over": OF_B},
            FOLLOWS,
            "",
        ),
        ("the same", "", {"kind": "same", "of": A1, "as": A1}, FOLLOWS, "0.00 percent"),
        (
            "similar",
            "",
            {"kind": "same", "of": curve("value", "B", clients=16), "as": B2},
            CONTRADICTS,
            "2.12 percent",
        ),
        (
            "lots",
            "",
            {"kind": "cannot_be_checked", "why": "the curve is a chart"},
            UNCHECKED,
            "the curve is a chart",
        ),
    ],
)
def test_each_verdict_is_given_for_its_reason(
    claimed: str, unit: str, rule: dict[str, Any], wanted: ClaimVerdict, reason: str
) -> None:
    found = verdict(claimed, rule, unit)
    assert (found.verdict, reason in found.reason) == (wanted, True), found


def test_repetitions_are_averaged_before_the_peak_is_taken() -> None:
    rows = {"clients": [1, 1, 8, 8], "repetition": [1, 2, 1, 2], "requests_per_s": [100, 120, 130, 80]}
    tables = Tables([of_columns("mixes", rows)])
    rule = {"kind": "highest", "table": "mixes", "column": "requests_per_s", "averaged_by": ["clients"]}
    place = {**rule, "kind": "position_of_highest", "at": "clients"}
    audited = audit_claims([claim("110", rule, ""), claim("1", place, "", "b")], tables, "own")
    assert [found.verdict for found in audited] == [ClaimVerdict.FOLLOWS] * 2


@pytest.mark.parametrize(
    ("claimed", "rule", "problem"),
    [
        ("1", {"table": "peaks", "column": "mbits_per_s", "where": {"server": "A"}}, "2 rows"),
        ("1", {"table": "peaks", "column": "mbits_per_s", "where": {"server": "C"}}, "no row"),
        ("1", {"table": "peaks", "column": "seconds"}, 'no column "seconds"'),
        ("1", {"table": "averages", "column": "mbits_per_s"}, 'no table "averages"'),
        ("lots", cell("A", 1), "not a number"),
        (
            "a bit more",
            {"kind": "greater", "of": cell("A", 1), "than": [cell("B", 1)]},
            "not a known word of order",
        ),
    ],
)
def test_a_claim_that_names_what_is_not_there_is_an_error_and_no_verdict(
    claimed: str, rule: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ClaimError, match=problem):
        verdict(claimed, rule)


@pytest.mark.parametrize("name", REPORTS)
def test_the_verdicts_on_a_report_are_those_that_were_looked_at(name: str) -> None:
    counts = Counter(found.verdict for found in AUDITED[name])
    assert tuple(counts[one] for one in ClaimVerdict) == COUNTS[name]


def test_the_documentation_states_the_counts_that_the_audit_gives() -> None:
    page = (ROOT / "docs" / "published.md").read_text(encoding="utf-8")
    for name, counts in COUNTS.items():
        row = f"| `{name}` | {sum(counts)} | {' | '.join(map(str, counts))} |"
        assert row in page
    together = [sum(column) for column in zip(*COUNTS.values(), strict=True)]
    assert f"| together | {sum(together)} | {' | '.join(map(str, together))} |" in page


@pytest.mark.parametrize(("place", "wanted"), NOTABLE.items(), ids=str)
def test_known_slips_are_found_and_named(place: tuple[str, str], wanted: tuple[ClaimVerdict, str]) -> None:
    found = next(one for one in AUDITED[place[0]] if one.claim.id == place[1])
    assert (found.verdict, wanted[1] in found.reason) == (wanted[0], True), found


def numeric() -> Iterator[tuple[str, Audited, printed.Printed]]:
    """Yield every numeric claim for which its rule computes a value."""
    for name, audited in AUDITED.items():
        for found in audited:
            number = printed.read(found.claim.claimed, found.claim.unit)
            if isinstance(found.computed, float) and number is not None:
                yield name, found, number


def in_form(value: float, number: printed.Printed) -> str:
    """Return the value with as many decimals as the printed number has."""
    return f"{value:.{max(0, round(-math.log10(number.step)))}f}"


def test_no_true_claim_of_a_number_passes_when_it_is_changed() -> None:
    # Values are changed up and down by two units of the last digit and 11 %, without words that would allow as much.
    changed = 0
    for name, found, number in numeric():
        if found.verdict is not ClaimVerdict.FOLLOWS:
            continue
        for sign in (-1, 1):
            wrong = found.computed * (1 + 0.11 * sign) + 2 * sign * number.step  # type: ignore[operator]
            claimed = found.claim.model_copy(update={"claimed": in_form(wrong, number)})
            if wrong > 0:
                changed += 1
                assert (
                    audit_claims([claimed], REPORTS[name].tables, name)[0].verdict is not ClaimVerdict.FOLLOWS
                )
    assert changed > 500


def test_no_true_order_passes_when_it_is_turned_round() -> None:
    turned = 0
    for name, audited in AUDITED.items():
        for found in audited:
            rule = found.claim.rule
            if found.verdict is not ClaimVerdict.FOLLOWS or not isinstance(
                rule, Order | PairedOrder | Course
            ):
                continue
            turned += 1
            if isinstance(rule, PairedOrder):
                update: dict[str, Any] = {"greater": rule.lower, "lower": rule.greater}
            else:
                other = {"greater": "lower", "lower": "greater", "rising": "falling", "falling": "rising"}
                update = {"kind": other[rule.kind]}
            wrong = found.claim.model_copy(update={"rule": rule.model_copy(update=update)})
            assert audit_claims([wrong], REPORTS[name].tables, name)[0].verdict is ClaimVerdict.CONTRADICTS
    assert turned > 80


def test_a_range_that_leaves_one_value_out_does_not_pass() -> None:
    changed = 0
    for name, audited in AUDITED.items():
        for found in audited:
            if isinstance(found.claim.rule, EachOf):
                changed += 1
                wrong = found.claim.model_copy(update={"claimed": "13 to 14"})
                assert (
                    audit_claims([wrong], REPORTS[name].tables, name)[0].verdict is ClaimVerdict.CONTRADICTS
                )
    assert changed >= 3


def chance(factor: float, draws: int, seed: int) -> Counter[str]:
    """Count the verdicts on wrong values, drawn within a factor of the true one and printed like the claim."""
    drawn, told = random.Random(seed), Counter[str]()
    for name, found, number in numeric():
        for _ in range(draws):
            assert isinstance(found.computed, float)
            value = found.computed * math.exp(drawn.uniform(-math.log(factor), math.log(factor)))
            text = in_form(value, number)
            wrong = printed.read(text, found.claim.unit)
            if wrong is None or wrong.value <= 0 or wrong.admits(found.computed):
                continue
            claimed = found.claim.model_copy(update={"claimed": text})
            one = audit_claims([claimed], REPORTS[name].tables, name)[0]
            rounding = "cut off" in one.reason or "rounded up" in one.reason
            told["rounding" if rounding else one.verdict.value] += 1
    return told


@pytest.mark.parametrize("factor", [1.1, 2.0])
def test_wrong_claims_are_seldom_explained_by_chance(factor: float) -> None:
    # docs/published.md states the rates, from more draws. The fixed seed makes each run alike.
    told = chance(factor, draws=3, seed=1)
    total = told.total()
    assert total > 800
    assert told["follows"] == 0
    assert told[ClaimVerdict.OTHER_BASE.value] / total < 0.02


@settings(max_examples=40)
@given(
    st.lists(st.floats(1, 1000), min_size=6, max_size=6),
    st.sampled_from(["46", "approximately 46", "1234.5"]),
)
def test_an_audit_of_any_figures_ends_with_a_verdict(values: list[float], claimed: str) -> None:
    rows: dict[str, list[Cell]] = {
        "server": ["A", "A", "A", "B", "B", "B"],
        "clients": [1, 2, 3, 1, 2, 3],
        "mbits_per_s": list(values),
    }
    tables = Tables([of_columns("curves", rows)])
    rule = {"kind": "percent_improvement", "of": curve("highest", "A"), "over": curve("highest", "B")}
    assert audit_claims([claim(claimed, rule)], tables, "own")[0].verdict in set(ClaimVerdict)


# The same audit of our own report: its findings as claims, compared with the experiment's records.


def records_as_tables(source: Source) -> Tables:
    columns: dict[str, list[Cell]] = {
        "configuration": [record.configuration for record in source.records],
        "repetition": [record.repetition for record in source.records],
        "clients": [record.clients for record in source.records],
        "requests_per_s": [record.operations / record.window_s for record in source.records],
    }
    return Tables([of_columns("mixes", columns)])


def own(kind: str, configuration: str, **more: Any) -> dict[str, Any]:
    return {
        "kind": kind,
        "table": "mixes",
        "column": "requests_per_s",
        "where": {"configuration": configuration, **more},
        "averaged_by": ["clients"],
    }


def claims_of_findings(findings: Sequence[str]) -> Iterator[Claim]:
    """Yield the claims in the sentences: peaks, their load levels, shares kept at the highest load, improvements."""
    for index, text in enumerate(findings):
        if match := re.match(r"(\S+) peaked at ([\d,]+) requests/s .*? with (\d+) clients", text):
            name, peak, clients = match.groups()
            place = own("position_of_highest", name) | {"at": "clients"}
            yield claim(peak, own("highest", name), "requests/s", f"peak-{index}")
            yield claim(clients, place, "clients", f"clients-{index}")
            kept = re.search(
                r"With (\d+) clients, the highest load, it kept (\d+)\s% of this throughput", text
            )
            assert kept
            last = own("value", name, clients=int(kept[1]))
            hundred = {"kind": "stated", "value": 100, "place": "percent"}
            share = {
                "kind": "product",
                "of": [{"kind": "ratio", "of": last, "to": own("highest", name)}, hundred],
            }
            yield claim(kept[2], share, "percent", f"kept-{index}")
        pair = re.match(r"(\S+) is (?:faster|slower) than (\S+) ", text)
        for figure, kind in (("peak", "highest"), ("overall average", "mean")):
            change = re.search(rf"in {figure}: ([+{MINUS}])([\d.]+)\s%", text)
            if pair and change:
                other, base = own(kind, pair[1]), own(kind, pair[2])
                rule = (
                    {"kind": "percent_improvement", "of": other, "over": base}
                    if change[1] == "+"
                    else {"kind": "percent_decline", "from": base, "to": other}
                )
                yield claim(change[2], rule, "percent", f"{kind}-{index}")


def test_the_key_findings_of_our_own_report_follow_from_the_experiments_records() -> None:
    servers = {"apache": Shape(2000, fall=0.25), "nginx": Shape(3700), "lighttpd": Shape(1500)}
    source = experiment(servers)
    claims = list(claims_of_findings([finding.claim for finding in build_from(source).findings]))
    assert len(claims) >= 3 * 3 + 3 * 2
    audited = audit_claims(claims, records_as_tables(source), "own")
    assert [found for found in audited if found.verdict is not ClaimVerdict.FOLLOWS] == []


def test_a_key_finding_of_ours_that_was_wrong_would_be_found() -> None:
    source = experiment({"apache": Shape(2000, fall=0.25), "nginx": Shape(3700)})
    tables = records_as_tables(source)
    claims = list(claims_of_findings([finding.claim for finding in build_from(source).findings]))
    assert claims
    for one in claims:
        wrong = one.model_copy(update={"claimed": f"{float(one.claimed.replace(',', '')) * 1.2 + 2:.0f}"})
        assert audit_claims([wrong], tables, "own")[0].verdict is not ClaimVerdict.FOLLOWS
