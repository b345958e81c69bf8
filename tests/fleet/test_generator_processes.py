"""Several generator processes run a load level as one does; a killed process fails the level, and nothing is left."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import psutil
import pytest
from benches.levels import http_target

from serverdyno import _native
from serverdyno.errors import DynoError
from serverdyno.fleet.processes import WorkerProcess, processes
from support.fleet_level import CLIENTS, DIGESTED, carried, level
from support.reference_servers import start_http

PATIENCE_S = 60.0
NO_SECRETS: dict[str, str | None] = {"consent_token": None, "password": None}


@pytest.fixture(scope="module")
def target() -> Iterator[_native.Target]:
    """Serve the document tree from threads of this process."""
    server = start_http()
    try:
        yield http_target(f"http://127.0.0.1:{server.port}/")
    finally:
        server.stop()


def test_however_many_processes_carry_it_the_clients_do_the_same(target: _native.Target) -> None:
    results = []
    for count in (1, 2, 4):
        with processes(count, target, NO_SECRETS) as running:
            results.append(carried(running, level(target)))
    for result, count in zip(results, (1, 2, 4), strict=True):
        assert result["errors"] == []
        assert result["generator_processes"] == count
        assert [row["client"] for row in result["by_client"]] == list(range(CLIENTS))
        assert all(row["operations"] > DIGESTED for row in result["by_client"])
        assert (result["clients_planned"], result["clients_participating"]) == (CLIENTS, CLIENTS)
        assert result["operations"] == sum(row["count"] for row in result["by_operation"])
        assert result.keys() == results[0].keys()
    digests = [result["digests"] for result in results]
    assert len(digests[0]) == CLIENTS
    assert digests == [digests[0]] * 3


def test_a_process_without_a_client_is_left_out_and_a_bound_is_of_all_together(
    target: _native.Target,
) -> None:
    with processes(2, target, NO_SECRETS) as running:
        alone = carried(running, level(target, clients=1, length_s=0.3))
        bounded = carried(running, level(target, length_s=1.0, max_rate_per_s=30.0))
    assert (alone["generator_processes"], alone["clients_planned"]) == (1, 1)
    assert 1 <= bounded["operations_total"] <= 30


def test_a_killed_process_fails_the_level_in_words_and_nothing_stays(target: _native.Target) -> None:
    with processes(2, target, NO_SECRETS) as running:
        pids = [node.pid for node in running.nodes if isinstance(node, WorkerProcess)]
        load = running.start(level(target, length_s=PATIENCE_S))
        while not load.snapshot()["operations"]:
            load.wait(0.05)
        os.kill(pids[1], signal.SIGKILL)
        with pytest.raises(DynoError, match=r"generator process 2 of 2 ended: signal 9"):
            load.wait(PATIENCE_S)
        load.stop()
        assert running.lost_clients() == list(range(CLIENTS))
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_a_document_that_is_refused_is_refused_by_its_problems(target: _native.Target) -> None:
    with processes(2, target, NO_SECRETS) as running:
        with pytest.raises(ValueError, match=r"window\.length_s"):
            running.start(level(target, length_s=-1.0))
        assert carried(running, level(target, length_s=0.3))["errors"] == []


def test_an_answer_that_an_interrupt_left_unread_is_not_taken_for_that_of_the_next_request(
    target: _native.Target,
) -> None:
    with processes(1, target, NO_SECRETS) as running:
        load = running.start(level(target, length_s=PATIENCE_S))
        [node] = running.nodes
        node.ask("look", timeout_s=0.0)
        load.stop()
        assert load.wait(PATIENCE_S)
