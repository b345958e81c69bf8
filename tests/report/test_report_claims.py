"""Key findings are claims: the audit of published reports computes them again from the records."""

import re
from collections import Counter
from dataclasses import replace

import pytest

from serverdyno.published.audit import ClaimVerdict, audit_claims
from serverdyno.report.build import build_from
from serverdyno.report.source import Source
from support.report_claims import claims, tables
from support.report_tables import table
from support.synthetic_experiment import Shape, experiment, scaled
from support.synthetic_files import FileShape, without_clients
from support.synthetic_files import experiment as file_experiment


def web() -> Source:
    return experiment(
        {"apache": Shape(2100, fall=0.3), "nginx": Shape(3900, fall=0.2), "lighttpd": Shape(1700)}
    )


def smb() -> Source:
    source = file_experiment({"strict": FileShape(120, fall=0.3), "lax": FileShape(310)})
    hit = source.records[-1]
    return replace(source, records=[*source.records[:-1], without_clients(hit, 3)])


@pytest.mark.parametrize("source", [web(), smb()], ids=["web", "smb"])
def test_every_key_finding_follows_from_the_records(source: Source) -> None:
    report = build_from(source)
    found = claims(report)
    audited = audit_claims(found, tables(source.records), "own")
    assert {row.claim.id: row.verdict for row in audited} == dict.fromkeys(
        (claim.id for claim in found), ClaimVerdict.FOLLOWS
    )
    kinds = Counter(claim.id.partition(".")[2] for claim in found)
    configurations = len(report.results.configurations)
    assert kinds["height"] == kinds["place"] == kinds["kept"] == configurations
    assert kinds["overall-average"] == len(report.comparisons)


@pytest.mark.parametrize("source", [web(), smb()], ids=["web", "smb"])
def test_what_a_claim_quotes_is_what_a_finding_says(source: Source) -> None:
    report = build_from(source)
    for claim in claims(report):
        assert any(claim.claimed in finding.claim for finding in report.findings), claim.id


def test_a_figure_that_the_records_do_not_give_is_found_out() -> None:
    source = web()
    found = claims(build_from(source))
    other = [scaled(row, 0.5) if row.configuration == "nginx" else row for row in source.records]
    wrong = [
        row for row in audit_claims(found, tables(other), "own") if row.verdict is not ClaimVerdict.FOLLOWS
    ]
    assert {"peak-2.height", "comparison-1.peak", "comparison-1.overall-average"} <= {
        row.claim.id for row in wrong
    }


def test_of_an_unfinished_or_failed_experiment_only_what_follows_is_claimed() -> None:
    source = web()
    some = replace(source, records=source.records[:12])
    audited = audit_claims(claims(build_from(some)), tables(some.records), "own")
    assert audited
    assert {row.verdict for row in audited} == {ClaimVerdict.FOLLOWS}
    assert claims(build_from(replace(source, records=[]))) == ()


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_all_figures_of_a_sentence_on_a_peak_are_in_one_row_of_the_table_of_peaks(noise: float) -> None:
    # With much noise the corrected peak differs; a separate, labelled sentence states it.
    shapes = {"apache": Shape(2100, fall=0.01, noise=noise), "nginx": Shape(3900, fall=0.01, noise=noise)}
    corrected = 0
    for source in (
        experiment(shapes, repetitions=4),
        file_experiment({"strict": FileShape(120, noise=noise), "lax": FileShape(310, noise=noise)}),
    ):
        report = build_from(source)
        rows = {
            row[0].text: {cell.text.removeprefix("≥\xa0") for cell in row}
            for row in table(report, "peaks").rows
        }
        said = [finding.claim for finding in report.findings if finding.topic == "Peak"]
        assert len(said) == len(rows) == 2
        for claim in said:
            name, figures = re.match(r"(\S+) peaked at (.*? clients?)", claim).groups()  # type: ignore[union-attr]
            height, second, clients = re.findall(r"[\d,.]*\d", figures)
            assert {height, second, clients} <= rows[name], claim
            corrected += "Corrected for choosing the best level: " in claim
        highest = next(
            text for text in report.summary.text if "ighest peak" in text or "can't be ranked" in text
        )
        for name, height, clients in re.findall(r"(\S+), ([\d,.]*\d) \S+/s.*? with ([\d,]+) client", highest):
            assert {height, clients} <= rows[name], highest
    assert bool(corrected) is (noise > 0.1)
