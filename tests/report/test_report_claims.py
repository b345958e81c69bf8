"""Key findings are claims: what they say is recomputed from the records by the audit of published reports."""

from collections import Counter
from dataclasses import replace

import pytest

from serverdyno.published.audit import ClaimVerdict, audit_claims
from serverdyno.report.build import build_from
from serverdyno.report.source import Source
from serverdyno.report.views.claims import claims, tables
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
