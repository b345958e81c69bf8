"""The shipped suites: parameters as published, each marked by how well it is known."""

from __future__ import annotations

import json
import re

import pytest

from serverdyno.errors import PlanError, UserError
from serverdyno.plan import suites
from serverdyno.plan.check_suite import check_suite
from serverdyno.plan.expand import levels
from serverdyno.plan.model import Suite
from serverdyno.plan.protocols.files import FILES
from serverdyno.plan.protocols.http import HTTP
from support.places import ROOT

BY_EIGHT_TO_120 = [1, *range(8, 121, 8)]
BY_FOUR_TO_60 = [1, *range(4, 61, 4)]


def check_loads(name: str, clients: list[int], threads: list[int]) -> Suite:
    """Check the clients and threads of every level, and HTTP/1.0 with one connection per request."""
    suite = suites.load(name)
    assert [level.clients for level in levels(suite)] == clients
    assert [level.threads for level in levels(suite)] == threads
    assert (suite.settings(HTTP).version, suite.settings(HTTP).keep_alive) == ("1.0", False)
    return suite


def test_the_open_benchmark_suite_has_its_published_parameters() -> None:
    suite = check_loads("webbench-2.0-static", BY_EIGHT_TO_120, [2] * 16)
    assert (suite.length_s, suite.ramp_up_s, suite.ramp_down_s) == (300, 30, 30)
    assert (suite.delay_s, suite.think_time_s) == (0, 0)
    assert suite.settings(HTTP).receive_buffer_bytes == 4096
    assert levels(suite)[0].window_s == 240


def test_the_second_benchmark_suite_ends_at_288_threads() -> None:
    suite = check_loads("webbench-2.0-static-288", [1, *range(8, 145, 8)], [2] * 19)
    assert suite.clients[-1] * suite.threads == 288
    assert {16, 96} <= set(suite.clients)  # the load levels that the report names
    assert suite.certainty["clients"].startswith("derived")


def test_the_standard_suite_of_2003_has_one_thread_up_to_60_clients() -> None:
    check_loads("webbench-4.1-static", BY_FOUR_TO_60, [1] * 16)


def test_the_larger_suite_of_2003_has_one_thread_up_to_120_clients() -> None:
    check_loads("webbench-4.1-static-120", BY_EIGHT_TO_120, [1] * 16)


def test_the_multi_threaded_suites_are_those_of_figure_12() -> None:
    check_loads("webbench-4.1-static-4t", BY_FOUR_TO_60, [4] * 16)
    check_loads("webbench-4.1-static-120-4t", BY_EIGHT_TO_120, [4] * 16)
    to_88_and_from_96 = [10 if clients <= 88 else 15 for clients in BY_EIGHT_TO_120]
    check_loads("webbench-4.1-static-120-10t-15t", BY_EIGHT_TO_120, to_88_and_from_96)


def test_the_quick_suite_is_quick_and_says_that_it_is_our_own() -> None:
    suite = suites.load("quick-static")
    assert sum(level.length_s for level in levels(suite)) <= 30
    assert "own" in suite.description
    assert not any(known.startswith(("seen", "derived")) for known in suite.certainty.values())


@pytest.mark.parametrize("name", suites.names())
def test_every_suite_says_that_it_is_not_the_original_program_or_has_none(name: str) -> None:
    suite = suites.load(name)
    assert suite.name == name
    assert (
        "not the original program" in suite.description
        or "re-creates no published suite" in suite.description
    )
    assert "e-creates" in suite.description


@pytest.mark.parametrize("name", suites.names())
def test_every_parameter_of_every_suite_is_marked_by_how_well_it_is_known(name: str) -> None:
    suite = suites.load(name)
    parameters = set(suite.parameters()) - (set() if suite.threads_from else {"threads_from"})
    assert set(suite.certainty) == parameters


def test_the_disk_mix_suites_have_their_published_parameters() -> None:
    # Sources: "Open Benchmark: NetBench Configuration and Results"; the methodologies of eTesting Labs 2001, VeriTest
    # 2004.
    classic = suites.load("netbench-5.01-disk-mix")
    assert classic.clients == [1, *range(12, 121, 12)]
    assert (classic.length_s, classic.ramp_up_s, classic.ramp_down_s, classic.delay_s) == (660, 30, 30, 5)
    assert (classic.settings(FILES).workspace_bytes, classic.settings(FILES).legacy_seed_reads) == (
        20 * 2**20,
        True,
    )
    assert suites.load("netbench-5.01-disk-mix-144").clients == [1, *range(16, 145, 16)]
    enterprise = suites.load("netbench-7.02-enterprise")
    assert (enterprise.clients, enterprise.length_s) == (BY_FOUR_TO_60, 600)
    tuning = suites.load("netbench-7.02-enterprise-tuning")
    assert (tuning.clients, tuning.length_s) == (BY_FOUR_TO_60, 300)
    peaks = suites.load("netbench-7.02-enterprise-2004")
    assert (peaks.clients, peaks.length_s) == (BY_FOUR_TO_60, 600)
    for tuned in (tuning, peaks):
        assert (tuned.settings(FILES).dormant_files, tuned.settings(FILES).dormant_s) == (100, 100)
    assert suites.load("netbench-7.02-enterprise-think").think_time_s > 0
    assert suites.load("netbench-7.02-enterprise-paced").settings(FILES).operations_per_client_s == 285


@pytest.mark.parametrize("name", [name for name in suites.names() if "4.1" in name])
def test_what_2003_did_not_publish_is_not_passed_off_as_published(name: str) -> None:
    certainty = suites.load(name).certainty
    for parameter in ("length_s", "ramp_up_s", "ramp_down_s", "think_time_s", "http.keep_alive"):
        assert certainty[parameter].startswith("choice: ")


def test_an_unknown_suite_is_refused_with_what_was_meant_and_how_to_list_them() -> None:
    with pytest.raises(UserError) as caught:
        suites.load("webbench-2.0-statik")
    assert "did you mean webbench-2.0-static" in str(caught.value)
    assert caught.value.hint == "`dyno suites` lists them."


@pytest.mark.parametrize("name", ["../plan/model", "/etc/passwd", ""])
def test_a_suite_name_is_never_a_path(name: str) -> None:
    with pytest.raises(UserError):
        suites.load(name)


SOUND = """
name = "s"
title = "t"
source = "none"
workload = "webbench-static"
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("clients = [1, 4, 4]\nlength_s = 9\n", ["line 6: clients[2]: 4 clients after 4"]),
        ("clients = [8, 1]\nlength_s = 9\n", ["line 6: clients[1]: 1 clients after 8"]),
        (
            "clients = [1]\nlength_s = 9\nramp_up_s = 5\nramp_down_s = 4\n",
            ["line 7: length_s: 9 s includes both"],
        ),
        (
            "clients = [1]\nlength_s = 9\ndelay_s = 2\nramp_up_s = 1\n",
            ["line 8: delay_s: clients may start up to 2 s late"],
        ),
        ("clients = [1]\nlength_s = 9\nthink_time_s = 9\n", ["line 8: think_time_s: 9 s is not shorter"]),
        (
            "clients = [1, 4]\nlength_s = 9\nthreads_from = [{clients = 8, threads = 2}]\n",
            ["line 8: threads_from[0].clients: never applies: no level has 8"],
        ),
        ("clients = [100000]\nlength_s = 9\nthreads = 2\n", ["line 8: threads: a level would have 200,000"]),
        ('clients = [1]\nlength_s = 9\n[certainty]\nlength_s = "sure"\n', ["line 9: certainty.length_s: "]),
        (
            "clients = [4, 4]\nlength_s = 1\nramp_up_s = 1\n",
            ["line 6: clients[1]: 4 clients", "line 7: length_s: 1 s includes"],
        ),
    ],
)
def test_a_suite_whose_parts_do_not_fit_is_refused_with_every_reason(text: str, expected: list[str]) -> None:
    with pytest.raises(PlanError) as caught:
        suites.parse(SOUND + text, "s.toml")
    assert len(caught.value.problems) == len(expected), caught.value.problems
    for problem, beginning in zip(caught.value.problems, expected, strict=True):
        assert problem.startswith(beginning), problem


def test_a_suite_with_a_pace_and_think_time_is_refused() -> None:
    text = SOUND.replace("webbench-static", "diskmix") + "clients = [1]\nlength_s = 9\nthink_time_s = 1\n"
    assert suites.parse(text, "s.toml").think_time_s == 1
    with pytest.raises(PlanError) as caught:
        suites.parse(text + "[files]\noperations_per_client_s = 2\n", "s.toml")
    [problem] = caught.value.problems
    assert problem.startswith("line 8: think_time_s: clients have a pace of 2 operations/s")


def test_a_suite_made_from_options_is_held_to_the_same_rules() -> None:
    made = suites.parse(SOUND + "clients = [1]\nlength_s = 10\n", "s.toml")
    check_suite(made, 1, "dyno load")
    with pytest.raises(PlanError, match=r"scale: leaves a window of 0.5 s"):
        check_suite(made, 0.05, "dyno load")


def test_the_page_on_suites_lists_every_shipped_suite_with_its_clients_and_threads() -> None:
    page = (ROOT / "docs" / "suites.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[^|]+`) \| ([\d, .]+) \| (\d+)[^|]* \| [^|]+ \|$", page, re.MULTILINE)
    listed = [(name, row) for row in rows for name in re.findall(r"`([^`]+)`", row[0])]
    assert sorted(name for name, _ in listed) == sorted(suites.names())
    for name, (_, clients, threads) in listed:
        suite = suites.load(name)
        numbers = [int(number) for number in re.findall(r"\d+", clients)]
        first = len(numbers) - 1
        assert (numbers[:first], numbers[-1]) == (suite.clients[:first], suite.clients[-1]), name
        assert "..." in clients or numbers == suite.clients, name
        assert int(threads) == suite.threads, name


def test_the_reference_of_suites_has_every_key_of_every_table() -> None:
    page = (ROOT / "docs" / "plan.md").read_text(encoding="utf-8")
    schema = json.loads((ROOT / "docs" / "suite.schema.json").read_text(encoding="utf-8"))
    tables = [schema, *schema["$defs"].values()]
    keys = {key for table in tables for key in table.get("properties", {})} - {
        "sections"
    }  # no suite file has this key
    assert len(keys) > 50
    assert sorted(key for key in keys if f"\n| `{key}` |" not in page and f"### `[{key}]`" not in page) == []
