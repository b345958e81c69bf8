"""Links that a plan shaped: a level that fills them names them as its limit, not the generator or the server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from serverdyno.analysis.comparability import Conditions, ObstacleKind, obstacles
from serverdyno.analysis.improvement import Improvement, Metric, Verdict
from serverdyno.analysis.trust import LINK_BOUND_SHARE, Limit, Mark
from serverdyno.report.build import build_from, judged, source_of
from serverdyno.report.figures.links import link_share, links_mbit_s
from serverdyno.report.source import Source
from serverdyno.store.experiment import Experiment

CORPUS = Path(__file__).resolve().parents[1] / "data" / "corpus" / "testbed"
FILLED_MBIT_S = 650.0
"""Rate of each of the two links at which the recorded bytes of lighttpd with 8 clients fill them, and others don't."""


def recorded(link_mbit_s: float | None, server_link_mbit_s: float | None = None) -> Source:
    """Return the recorded experiment as if its plan had links of these rates."""
    source = source_of(Experiment.open(CORPUS))
    assert source.head.plan.testbed is not None
    [subnet] = source.head.plan.testbed.subnets
    rates = {"link_mbit_s": link_mbit_s, "server_link_mbit_s": server_link_mbit_s}
    testbed = source.head.plan.testbed.model_copy(update={"subnets": [subnet.model_copy(update=rates)]})
    plan = source.head.plan.model_copy(update={"testbed": testbed})
    return replace(source, head=source.head.model_copy(update={"plan": plan}))


def limits(source: Source) -> dict[tuple[str, int], tuple[Limit, ...]]:
    return {
        (result.name, level.clients): result.limits_of(level)
        for result in judged(source).configurations
        for level in result.finished
    }


def test_a_level_that_fills_the_links_names_them_and_not_the_generator() -> None:
    free, filled = limits(recorded(None)), limits(recorded(FILLED_MBIT_S))
    assert free["lighttpd", 8] == (Limit.GENERATOR,)
    assert filled["lighttpd", 8] == (Limit.LINK,)
    assert filled["nginx", 8] == free["nginx", 8]
    report = build_from(recorded(FILLED_MBIT_S))
    assert "the plan's links with 8 clients" in report.answer.limit
    [said] = [each.claim for each in report.findings if each.topic == "Peak" and "lighttpd" in each.claim]
    assert "The plan's links, 1,300 Mbit/s in each direction, limited it (link-bound)" in said


def test_the_narrower_end_of_a_link_counts() -> None:
    source = recorded(FILLED_MBIT_S, 900.0)
    record = next(record for record in source.records if record.clients == 8)
    assert links_mbit_s(record, source.head.plan.testbed) == 900.0
    assert links_mbit_s(record, recorded(None).head.plan.testbed) is None
    assert links_mbit_s(record, None) is None


def test_the_share_counts_headers_and_only_links_of_hosts_with_clients() -> None:
    source = recorded(1000.0)
    record = next(record for record in source.records if record.clients == 8)
    data_mbit_s = record.bytes_in * 8 / record.window_s / 1e6
    share = link_share(record, source.head.plan.testbed)
    assert share is not None
    assert 1.04 * data_mbit_s < share * 2000 < 1.07 * data_mbit_s
    one = replace(record, nodes=record.nodes[:1])
    assert link_share(one, source.head.plan.testbed) == pytest.approx(2 * share)


def test_the_speed_that_the_links_hide_is_what_they_had_left() -> None:
    level = judged(recorded(FILLED_MBIT_S)).of("lighttpd").finished[-1]
    assert Mark.LINK_BOUND in level.marks
    assert Mark.GENERATOR_LIMITED not in level.marks
    assert level.hidden_speed is not None
    assert 0 <= level.hidden_speed <= 1 / LINK_BOUND_SHARE - 1
    assert level.stated_hidden_speed is None  # without the links, the server may be faster


@pytest.mark.parametrize(
    ("verdict", "named"), [(Verdict.EQUIVALENT, [ObstacleKind.LINK_BOUND]), (Verdict.FASTER, [])]
)
def test_equal_figures_over_full_links_make_no_draw(verdict: Verdict, named: list[ObstacleKind]) -> None:
    base, other = (Conditions(name, 0.0, 0.0, 0.0, {"GET": 9}, 0.01, link_bound=name == "a") for name in "ab")
    low, high = (-1.0, 1.0) if verdict is Verdict.EQUIVALENT else (5.0, 9.0)
    found = Improvement(
        figure=Metric.OVERALL_AVERAGE,
        base=1.0,
        other=1.0,
        percent=(low + high) / 2,
        low_percent=low,
        high_percent=high,
        observed_low_percent=low,
        observed_high_percent=high,
        repetitions=3,
        paired=True,
        levels=(0,),
        verdict=verdict,
        equivalence_percent=5.0,
    )
    assert [each.kind for each in obstacles(base, other, found, differs_in_durability=False)] == named
