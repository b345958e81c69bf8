"""The generator's ceiling: from rates and CPU time of a few loads to every load of the suite."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from serverdyno import suites
from serverdyno.plan.model import Mix, Plan, ServerPlan
from serverdyno.runner.calibrate import calibration_servers, capacity_s, ceiling_operations_s
from serverdyno.runner.create import create_experiment
from serverdyno.store.records import CeilingRecord

# 20,000 operations in 2 s for 1 CPU second.
PROBE = CeilingRecord(1, 10, 1, 0.0, 2.0, 20_000, 0, 0, 0.2, 0.8)

CONFIGURATION = "c"


def mix(clients: int, threads: int = 1) -> Mix:
    return Mix(1, "m", clients, threads, 2.0, 0.0, 0.0, 0.0, 0.0)


def test_a_generator_that_was_held_up_could_have_made_what_its_cpu_time_allows() -> None:
    assert capacity_s(PROBE, engine_threads=1) == 20_000
    assert capacity_s(PROBE, engine_threads=2) == 40_000


def test_a_generator_that_was_the_limit_reached_its_ceiling() -> None:
    saturated = replace(PROBE, generator_cpu_user_s=0.5, generator_cpu_system_s=1.5)
    assert capacity_s(saturated, engine_threads=1) == saturated.operations / saturated.window_s


def test_no_more_threads_count_than_there_are_clients() -> None:
    assert capacity_s(replace(PROBE, clients=2), engine_threads=4) == 40_000


def test_between_two_probes_the_ceiling_lies_on_a_line_and_beyond_them_it_stays() -> None:
    few = replace(PROBE, clients=10)
    many = replace(PROBE, clients=20, operations=40_000)
    found = [
        ceiling_operations_s([many, few], CONFIGURATION, mix(clients), 1) for clients in (1, 10, 15, 20, 99)
    ]
    assert found == [20_000, 20_000, 30_000, 40_000, 40_000]
    assert ceiling_operations_s([few, many], CONFIGURATION, mix(5, threads=3), 1) == pytest.approx(30_000)


def test_without_probes_there_is_no_ceiling() -> None:
    assert ceiling_operations_s([], CONFIGURATION, mix(1), 1) is None
    idle = replace(PROBE, operations=0, generator_cpu_user_s=0.0, generator_cpu_system_s=0.0)
    assert ceiling_operations_s([idle], CONFIGURATION, mix(1), 1) is None


def test_a_ceiling_counts_for_the_configurations_that_it_was_measured_for() -> None:
    plain = replace(PROBE, configurations=["plain"])
    signed = replace(PROBE, operations=10_000, configurations=["signed", "signed too"])
    ceilings = [plain, signed]
    found = [ceiling_operations_s(ceilings, name, mix(10), 1) for name in ("plain", "signed too", "other")]
    assert found == [20_000, 10_000, None]


def test_file_servers_that_let_clients_do_the_same_share_a_ceiling(tmp_path: Path) -> None:
    def samba(name: str, **settings: Any) -> ServerPlan:
        return ServerPlan(server="samba", name=name, settings=settings)

    users = ServerPlan(server="external-smb", url="smb://127.0.0.1/", settings={"shares": ["a"]})
    servers = [
        samba("plain"),
        samba("no-strict-sync", strict_sync=False),
        samba("kernel", kernel_oplocks=True),
        samba("no-oplocks", oplocks=False),
        users,
    ]
    plan = Plan(name="p", title="", suite="quick-files", servers=servers)
    with create_experiment(tmp_path / "e", "", plan, suites.load("quick-files")) as created:
        found = {server.configurations: server.settings for server in calibration_servers(created.head)}
    assert found == {
        ("plain", "no-strict-sync"): {"smb2_leases": True},
        ("kernel",): {"smb2_leases": False},  # as Samba then does
        ("no-oplocks",): {"oplocks": False, "smb2_leases": False},
    }
