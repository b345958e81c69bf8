"""The bench of the mark G: its arithmetic, and one real case with tiny parameters."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from benches.limits import CASES, Judgement, Reading, Row, carry_out, row, write
from benches.rounds import cpus

ONE_CPU = len(os.sched_getaffinity(0)) < 2


def reading(requests_s: float, waiting: float = 0.5, server_share: float = 0.2) -> Reading:
    return Reading(requests_s, 10_000.0, waiting, server_share)


@pytest.mark.parametrize(
    ("slowed", "waiting", "judgement"),
    [
        ([840, 850, 845], 0.5, Judgement.RIGHT),
        ([999, 1000, 998], 0.5, Judgement.WRONG),
        ([840, 850, 845], 0.01, Judgement.WRONG),
        ([999, 1000, 998], 0.01, Judgement.RIGHT),
        ([900, 1000, 980], 0.5, Judgement.CANT_TELL),
    ],
)
def test_the_mark_is_right_where_the_throughput_does_what_it_says(
    slowed: list[float], waiting: float, judgement: Judgement
) -> None:
    plain = [reading(1000, waiting)] * 3
    assert row("a case", plain, [reading(each) for each in slowed]).judgement is judgement


@pytest.mark.skipif(ONE_CPU, reason="generator and server need a CPU each")
def test_a_case_is_carried_out_and_written(tmp_path: Path) -> None:
    found = carry_out(CASES[1], cpus(), pairs=2, seconds=0.3)
    assert 0 <= found.waiting <= 1
    assert found.low <= found.change <= found.high
    write(tmp_path / "limits", [found], "python -m benches.limits")
    assert f"| {found.case} |" in (tmp_path / "limits" / "README.md").read_text()
    assert len((tmp_path / "limits" / "limits.csv").read_text().splitlines()) == 2
    assert isinstance(found, Row)
