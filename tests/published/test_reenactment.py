"""The mappings of published reports to today's experiments: their names exist, and all problems are reported."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from serverdyno import published
from serverdyno.errors import PlanError
from serverdyno.plan import expand, suites
from serverdyno.plan.load import load_plan
from serverdyno.plan.model import Configuration
from serverdyno.plan.protocols.bonnie import PHASES
from serverdyno.published import reenactment
from serverdyno.published.reenactment import Reenactment, Today, parse
from serverdyno.report.reenact import Counterpart
from serverdyno.servers.registry import settings_types

PLANS = Path(__file__).resolve().parents[2] / "plans"
NAMES = published.names()
FIGURES = {
    "1999-mindcraft-linux": 4,
    "2001-etesting-netware": 34,
    "2002-etesting-sfu": 15,
    "2003-veritest-iis": 49,
    "2004-veritest-samba": 30,
}
"""The last figure of each report."""


def mapping(name: str) -> Reenactment:
    return reenactment.load(published.load(name))


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_of_a_report_is_listed_once_and_in_order(name: str) -> None:
    listed = [figure for shown in mapping(name).figures for figure in shown.figures]
    numbers = [int(figure) for figure in listed if figure.isdigit()]
    assert numbers == list(range(1, FIGURES[name] + 1))
    assert set(reenactment.printed_figures(published.load(name))) <= set(listed)


@pytest.mark.parametrize("name", NAMES)
def test_every_suite_server_setting_and_phase_of_a_mapping_exists(name: str) -> None:
    found, types = mapping(name), settings_types()
    for each in found.today:
        assert set(each.suites) <= set(suites.names()), each
        assert set(each.servers) <= set(types), each
        for setting in each.settings:
            assert any(setting in types[server].model_fields for server in each.servers or types), each
    for shown in found.figures:
        assert set(shown.phases) <= set(PHASES)


@cache
def shipped() -> list[Configuration]:
    """Return the configurations of all shipped plans."""
    types = settings_types()
    plans = [load_plan(path, types).plan for path in sorted(PLANS.glob("*.toml"))]
    return [one for plan in plans for one in expand.configurations(plan, types)]


def fits_a_plan(each: Today) -> bool:
    """Return whether a counterpart describes a configuration of a shipped plan, whatever its suite."""
    wanted = Counterpart(set(each.servers) or None, set(each.names) or None, None, dict(each.settings))
    return any(wanted.describes("", one.server, one.name, one.settings) for one in shipped())


@pytest.mark.parametrize("name", NAMES)
def test_every_counterpart_fits_a_configuration_of_a_shipped_plan(name: str) -> None:
    unused = [each for each in mapping(name).today if not each.absent and not fits_a_plan(each)]
    # Plans name one and two processors; a machine with more adds its own.
    assert {each.column for each in unused} <= {"processors"}
    assert all(int(each.value) > 2 for each in unused)


MISTAKES = """
[figures_of]
tops = "peak"

[[today]]
column = "web_servr"
value = "IIS 6.0"
absent = "IIS runs only on Windows."

[[today]]
column = "web_server"
value = "IIS 7.0"
absent = "IIS runs only on Windows."

[[figures]]
figures = ["2"]
title = "Peaks"
shows = "peaks"
series = [{ web_server = "TUX" }]

[[figures]]
figures = ["2"]
title = "Peaks again"
same_as = "99"

[[claims]]
ids = ["key-99"]
of = { processors = 2 }
over = { processors = 1 }
"""


def test_all_problems_of_a_mapping_are_told_at_once() -> None:
    with pytest.raises(PlanError) as caught:
        parse(MISTAKES, published.load("2003-veritest-iis"))
    said = str(caught.value)
    for part in (
        'no table "tops"',
        'no column of its tables "web_servr"; did you mean web_server or',
        'no value of web_server "IIS 7.0"; did you mean IIS 6.0?',
        'has no counterpart of "TUX"',
        'figure "2" is listed twice',
        'no figure "99" is listed before',
        'figure "15" of the tables is missing',
        'no claim "key-99"',
        'claims[0].over.processors: [[today]] has no counterpart of "1"',
    ):
        assert part in said, said


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ('[[today]]\ncolumn = "a"\nvalue = 1', "needs either absent or a counterpart"),
        ('[[figures]]\nfigures = ["1"]\ntitle = "A"', "needs one of shows, same_as and why"),
        ('[[figures]]\nfigures = ["1"]\ntitle = "A"\nshows = "curves"', "needs series for peaks"),
        ('[[figures]]\nfigures = ["1"]\ntitle = "A"\nshows = "bonnie"', "needs phases for bonnie"),
        ('[[figures]]\nfigures = ["1", "2"]\ntitle = "A"\nshows = "steps"', "write an entry for each"),
    ],
)
def test_an_entry_says_one_thing(entry: str, problem: str) -> None:
    with pytest.raises(PlanError, match=problem):
        parse(entry, published.load("2003-veritest-iis"))
