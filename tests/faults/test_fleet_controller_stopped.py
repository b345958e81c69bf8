"""A controller that is stopped for a while: its nodes end its load; once continued, it reports this and can resume."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from benches.levels import http_target

from serverdyno.fleet import cluster
from serverdyno.fleet.membership import fleet_at
from serverdyno.plan.model import GeneratorPlan, Plan, ServerPlan, Suite
from serverdyno.probes.noise import process_cpu_s
from serverdyno.run.create import create_experiment
from serverdyno.store.experiment import Experiment
from support.dyno_process import PATIENCE_S, Home, wait_for_line, wait_until
from support.fleet_level import carried, level
from support.fleet_nodes import RunningFleet, running_fleet
from support.reference_servers import start_http

NAMES = ("a", "b")
NO_SECRETS: dict[str, str | None] = {"consent_token": None, "password": None}
LOADED_S = 0.03
"""CPU time, in s, that a node uses only if it generates load."""


def planned(folder: Path, fleet: Path, node: str | None = None) -> Path:
    """Create an experiment of two runs without starting it; `node` runs the servers."""
    load: dict[str, Any] = {"clients": [2, 3], "length_s": 3.0, "think_time_s": 0.001}
    suite = Suite(name="tiny", source="a test", workload="webbench-static", **load)
    plan = Plan(
        name="tiny",
        suite="tiny",
        repetitions=1,
        servers=[ServerPlan(server="reference", name=name, node=node) for name in ("first", "second")],
        generator=GeneratorPlan(fleet=str(fleet)),
    )
    with create_experiment(folder, "# made by a test\n", plan, [suite]):
        pass
    return folder


def wait_until_free(fleet: RunningFleet) -> None:
    """Wait until each node has given up the silent controller."""
    with cluster.connected(fleet.folder) as connection:
        members = connection.members()

        def free() -> bool:
            facts = connection.facts(members).values()
            return all(told is not None and not told["in_use"] for told in facts)

        wait_until(free, "nodes that are free")


@contextmanager
def stopped_in_its_second_level(
    home: Home, fleet: RunningFleet, folder: Path
) -> Iterator[subprocess.Popen[str]]:
    """Yield a controller that was stopped under load, once its nodes have given it up."""
    with home.started("resume", folder) as dyno:
        # The line of the first level shows that the second begins.
        wait_for_line(dyno, "2 clients")
        used_s = process_cpu_s(fleet.nodes["a"].pid)
        wait_until(lambda: process_cpu_s(fleet.nodes["a"].pid) > used_s + LOADED_S, "load")
        dyno.send_signal(signal.SIGSTOP)
        wait_until_free(fleet)
        yield dyno


def assert_resumed(home: Home, folder: Path) -> None:
    resumed = home.dyno("resume", folder)
    assert resumed.returncode == 0, resumed.stderr
    assert "Traceback" not in resumed.stderr
    assert Experiment.open(folder).finished() == {(1, 1), (1, 2), (2, 1), (2, 2)}


@pytest.mark.parametrize(
    "node",
    [pytest.param(None, id="server here"), pytest.param("b", id="server on a node", marks=pytest.mark.long)],
)
def test_a_controller_that_was_stopped_for_long_voids_the_level_in_words_and_resumes(
    home: Home, tmp_path: Path, node: str | None
) -> None:
    with running_fleet(tmp_path / "lab", NAMES) as fleet:
        folder = planned(tmp_path / "e", fleet.path, node)
        with stopped_in_its_second_level(home, fleet, folder) as dyno:
            dyno.send_signal(signal.SIGCONT)
            _, said = dyno.communicate(timeout=PATIENCE_S)
        assert "Traceback" not in said
        assert "it dropped this controller after 5 s without a message" in said, said
        assert Experiment.open(folder).run_notes()[1].state == "failed"
        assert Experiment.open(folder).finished() == {(1, 1), (2, 1), (2, 2)}
        assert_resumed(home, folder)


def test_a_controller_that_comes_back_while_another_has_its_nodes_ends_in_words_and_resumes(
    home: Home, tmp_path: Path
) -> None:
    server = start_http()
    target = http_target(f"http://127.0.0.1:{server.port}/")
    try:
        with running_fleet(tmp_path / "lab", NAMES) as fleet:
            folder = planned(tmp_path / "e", fleet.path)
            with (
                stopped_in_its_second_level(home, fleet, folder) as dyno,
                fleet_at(fleet.path, GeneratorPlan(), target, NO_SECRETS) as nodes,
            ):
                dyno.send_signal(signal.SIGCONT)
                _, said = dyno.communicate(timeout=PATIENCE_S)
                assert carried(nodes, level(target))["errors"] == []
            assert "Traceback" not in said
            assert "is lost: it is in use by another controller" in said, said
            assert Experiment.open(folder).finished() == {(1, 1)}
            assert_resumed(home, folder)
    finally:
        server.stop()
