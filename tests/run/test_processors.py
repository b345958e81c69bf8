"""A server confined to a number of processors: its CPUs, proof that its processes run there, and the disclosure."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import psutil
import pytest

from serverdyno.errors import UserError
from serverdyno.fleet.placement import of_processors
from serverdyno.plan.validate import check_plan
from serverdyno.probes.topology import Topology
from serverdyno.servers.local import LocalServer
from serverdyno.servers.registry import settings_types
from serverdyno.servers.running import running
from support.dyno_process import INSTALLED, Home, short_suite

CPUS = sorted(os.sched_getaffinity(0))


@pytest.fixture
def machine(tmp_path: Path) -> Topology:
    """Return a machine with two nodes: cores 0+4 and 1+5 in the first, 2+6 and 3+7 in the second."""
    for cpu in range(8):
        directory = tmp_path / f"cpu{cpu}"
        (directory / "topology").mkdir(parents=True)
        (directory / "topology" / "thread_siblings_list").write_text(f"{cpu % 4},{cpu % 4 + 4}\n")
        (directory / f"node{cpu % 4 // 2}").mkdir()
    return Topology.read(range(8), tmp_path)


def test_a_server_gets_whole_cores_of_one_node_before_hyperthreads_and_the_other_node(
    machine: Topology,
) -> None:
    free = range(1, 8)  # the load has CPU 0, so the second node has more free CPUs
    assert of_processors(1, free, [0], machine) == (2,)
    assert of_processors(2, free, [0], machine) == (2, 3)
    assert of_processors(4, free, [0], machine) == (2, 3, 6, 7)
    assert of_processors(6, free, [0], machine) == (1, 2, 3, 4, 6, 7)
    assert machine.siblings((1, 2, 4, 6)) == [(2, 6)]


def test_the_loads_cpus_are_taken_last_and_no_cpu_twice(machine: Topology) -> None:
    assert of_processors(7, range(1, 8), [0], machine) == tuple(range(1, 8))
    assert of_processors(8, range(1, 8), [0], machine) == tuple(range(8))
    with pytest.raises(UserError, match="processors = 9, but"):
        of_processors(9, range(1, 8), [0], machine)


def test_a_machine_that_says_nothing_of_cores_has_one_for_each_cpu(tmp_path: Path) -> None:
    silent = Topology.read(range(3), tmp_path)
    assert silent.spread([2, 0, 1]) == [0, 1, 2]
    assert silent.siblings([0, 1, 2]) == []


def test_more_processors_than_there_are_is_a_problem_of_the_plan() -> None:
    def problems(server: dict[str, Any]) -> list[str]:
        data = {"name": "p", "suite": "quick-static", "servers": [{"server": "nginx", **server}]}
        _, found = check_plan(data, settings_types(), machine_cpus=[0, 1])
        return [problem.message for problem in found]

    assert problems({"factors": {"processors": [1, 2]}}) == []
    assert problems({"factors": {"processors": [1, 3]}}) == ["3, but this process may use only 2 CPU(s)"]
    assert problems({"cpus": [1], "settings": {"processors": 2}}) == ["2, but cpus names only 1 CPU(s)"]


@pytest.mark.skipif(len(CPUS) < 2, reason="one CPU")
@pytest.mark.parametrize("name", ["nginx", "lighttpd", "reference"])
def test_a_server_has_its_workers_on_its_cpus(name: str) -> None:
    if name != "reference" and name not in INSTALLED:
        pytest.skip(f"{name} is not installed here")
    for count in (1, 2):
        with running(name, {"processors": count}, cpus=CPUS[:count]) as server:
            assert isinstance(server, LocalServer)
            assert {tuple(psutil.Process(pid).cpu_affinity()) for pid in server.pids()} == {
                tuple(CPUS[:count])
            }
            workers = server.threads if name == "reference" else server.workers  # type: ignore[attr-defined]
            assert workers == count


@pytest.mark.skipif(len(CPUS) < 2, reason="one CPU")
def test_the_report_says_how_it_scaled_and_where_the_load_was_on_the_servers_cpus(
    home: Home, tmp_path: Path
) -> None:
    plan, folder = tmp_path / "p.toml", tmp_path / "e"
    plan.write_text(
        f'name = "p"\nsuite = "{short_suite(tmp_path / "tiny.toml", [4])}"\nrepetitions = 1\n'
        f'[[servers]]\nserver = "reference"\nfactors = {{ processors = [1, {len(CPUS)}] }}\n'
    )
    assert (done := home.here("run", plan, "--into", folder)).returncode == 0, done.stderr
    assert (done := home.here("report", folder, "--json")).returncode == 0, done.stderr
    report = json.loads((folder / "report" / "report.json").read_text())
    [scaling] = [section for section in report["sections"] if section["key"] == "scaling"]
    assert [row[1]["text"] for row in scaling["tables"][0]["rows"]] == ["1", str(len(CPUS))]
    said = json.dumps(report["findings"])
    assert f"reference with {len(CPUS)} CPUs has" in said
    assert f"With {len(CPUS)} CPUs, the generator also ran on CPU {CPUS[0]}" in said
    head = json.loads((folder / "experiment.json").read_text())
    assert [len(found["cpus"]) for found in head["configurations"]] == [1, len(CPUS)]
    assert set(head["configurations"][0]["cpus"]).isdisjoint(head["plan"]["generator"]["cpus"])
