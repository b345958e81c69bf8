"""The noise floor of a machine: stored, read again, and used by plans and experiments."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from serverdyno.analysis.sensitivity import design_finds_percent
from serverdyno.cli import app
from serverdyno.probes import noise_floor
from serverdyno.probes.noise_floor import Selftest
from support.simulations import Design, claims

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
PLAN = """
name = "p"
title = "P"
suite = "quick-static"
[[servers]]
server = "reference"
factors = { threads = [1, 2] }
"""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "serverdyno" / "selftests.json"


def selftest(
    hours: float, percent: float = 1.0, operations_s: float = 1000.0, load: str = "suite"
) -> Selftest:
    return Selftest(
        made=BEGIN + timedelta(hours=hours),
        load=load,
        percent=percent,
        scatter_percent=percent / 2,
        operations_s=operations_s,
    )


def test_without_a_selftest_nothing_is_known_and_a_damaged_file_is_as_good_as_none(state: Path) -> None:
    assert noise_floor.load() is None
    state.parent.mkdir()
    for content in ("", "[]", '{"machines": {"x": [{"percent": NaN}]}}', "\xff"):
        state.write_text(content)
        assert noise_floor.load() is None
    noise_floor.keep(selftest(0))
    assert noise_floor.load() is not None


def test_the_largest_of_the_latest_three_selftests_counts(state: Path) -> None:
    for hours, percent in enumerate((9.0, 1.0, 3.0, 2.0)):
        noise_floor.keep(selftest(hours, percent))
    found = noise_floor.load()
    assert found is not None
    assert (found.percent, found.scatter_percent, found.selftests) == (3.0, 1.5, 4)


def test_only_the_latest_selftests_are_kept() -> None:
    for hours in range(noise_floor.MOST_KEPT + 1):
        noise_floor.keep(selftest(hours))
    found = noise_floor.load()
    assert found is not None
    assert (found.made, found.selftests) == (selftest(hours).made, noise_floor.MOST_KEPT)


def test_how_far_times_lie_apart_takes_three_selftests_of_one_load_an_hour_apart() -> None:
    for hours, rate in ((0, 1000.0), (0.5, 5000.0), (2, 1020.0)):
        noise_floor.keep(selftest(hours, operations_s=rate))
    noise_floor.keep(selftest(3, operations_s=7000.0, load="another"))
    found = noise_floor.load()
    assert found is not None and found.between_times_percent is None
    noise_floor.keep(selftest(4, operations_s=990.0))
    found = noise_floor.load()
    assert found is not None and found.between_times_percent is not None
    deviation = np.std(np.log([1000, 1020, 990]), ddof=1)
    assert found.between_times_percent == pytest.approx(100 * np.expm1(deviation))
    assert found.times == 3


def test_a_plan_says_which_differences_it_can_show(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"

    def said(repetitions: int) -> str:
        plan.write_text(f"repetitions = {repetitions}{PLAN}")
        return CliRunner().invoke(app, ["plan", "check", str(plan)]).stdout

    assert "1 repetition: can't prove any difference" in said(1)
    assert "2 repetitions: detects differences above about" in said(2)
    assert "`dyno selftest` measures the scatter of this machine" in " ".join(said(5).split())
    noise_floor.keep(selftest(0, 6.0))
    assert "as in the last self-test" in " ".join(said(5).split())


def test_what_a_design_finds_is_found_in_four_of_five_simulated_experiments() -> None:
    # In the simulations, runs share 2 % of noise, and each of sixteen levels has 2 % of its own: 2.1 % per average.
    least = design_finds_percent(4, 3, 0.021)
    assert least is not None
    found = claims(Design(3, (1.0, 1.0, 1.0, 1 - least / 100)), 200).average
    assert 0.7 < found < 0.97
    assert design_finds_percent(1, 3, 0.02) is None
    assert design_finds_percent(2, 1, 0.02) is None
