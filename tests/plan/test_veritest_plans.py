"""The plans after VeriTest 2003: one for each table of its report, with the table's suite and numbers of processors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from serverdyno import published
from serverdyno.plan import suites
from serverdyno.plan.expand import configurations
from serverdyno.plan.load import load_plan
from serverdyno.plan.protocols.documents import DOCUMENTS
from serverdyno.published.processors import by_processors
from serverdyno.servers.registry import settings_types
from support.places import ROOT

PLANS = sorted((ROOT / "plans").glob("veritest-2003-web-*.toml"))


def test_every_kind_of_content_of_the_report_has_a_plan() -> None:
    kinds = {"static", "dynamic-cgi", "dynamic-inprocess", "ecommerce-cgi", "ecommerce-inprocess"}
    assert {path.stem.removeprefix("veritest-2003-web-") for path in PLANS} == kinds


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_a_plan_has_the_suite_of_120_clients_and_apache_as_tuned_on_every_number_of_processors(
    path: Path,
) -> None:
    types = settings_types()
    plan = load_plan(path, types).plan
    suite = suites.load(plan.suite_names[0])
    assert (suite.clients[-1], suite.threads) == (120, 1)
    assert plan.repetitions == (5 if path.stem == "veritest-2003-web-static" else 2)
    found = configurations(plan, types)
    apaches = [each.settings for each in found if each.server == "apache"]
    for apache in apaches:
        assert (apache["workers"], apache["max_connections_per_child"]) == (150, 0)
        assert not apache.get("access_log", False)
    carrier = suite.settings(DOCUMENTS).carrier
    # ISAPI is compiled code inside the server: Apache's own module is first, the script second. Otherwise the processes
    # of the report's Apache are first, threads second.
    ways: list[tuple[str | None, str]] = [("native", "prefork"), ("in-process", "prefork")]
    if carrier != "in-process":
        ways = [(carrier, "prefork"), (carrier, "worker")]
    made = [(apache.get("dynamic"), apache["mpm"]) for apache in apaches]
    assert made == [each for each in ways for _ in (1, 2)]
    assert [each.settings["processors"] for each in found] == [1, 2] * 3
    team = [each.settings for each in found if each.server == "team"]
    assert bool(team) == ("cgi" in path.stem)
    for settings in team:
        # TUX spoke no TLS: Apache answered TLS on another port.
        assert settings.get("tls_by") == ("back" if "ecommerce" in path.stem else None)
        assert settings["back_settings"]["mpm"] == "prefork"


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_a_plan_names_the_published_table_of_its_content(path: Path) -> None:
    [words] = re.findall(r"--beside (2003-veritest-iis:\d+)`", path.read_text(encoding="utf-8"))
    [figure] = by_processors(published.named(words), "requests/s")
    assert {count for row in figure.rows for count in row.by_count} == {1, 2, 4, 8}
    said = " ".join((figure.title, *(row.name for row in figure.rows)))
    wanted = path.stem.removeprefix("veritest-2003-web-")
    content = {"static": "static", "cgi": "cgi", "inprocess": "isapi"}[wanted.rpartition("-")[2]]
    assert content in said and ("ssl/" in said) is ("ecommerce" in wanted)


def test_the_network_is_four_subnets_of_30_clients_behind_gigabit_legs() -> None:
    plan = load_plan(ROOT / "plans" / "veritest-2003-network.toml", settings_types()).plan
    assert plan.testbed is not None
    subnets = plan.testbed.subnets
    assert len(subnets) == 4
    for each in subnets:
        assert each.link_mbit_s == 100 * (30 / each.hosts)  # the clients of a host share its link
        assert each.server_link_mbit_s == 1000
    assert [server.settings.get("mpm") for server in plan.servers] == ["prefork", "worker", None]
