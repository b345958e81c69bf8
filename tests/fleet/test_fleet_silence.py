"""The fleet waits for a node with too little CPU time. `test_fleet_faults.py` tests dead and stopped nodes."""

from __future__ import annotations

import asyncio
import signal
import threading
import time

from benches.levels import http_target
from hypothesis import given
from hypothesis import strategies as st

from serverdyno.fleet import cluster
from serverdyno.fleet.membership import all_nodes, fleet_at
from serverdyno.fleet.silence import LATE_FOR_S, LISTENER_LOOK_S, LONGEST_S, LOOKS, Lateness, Silence
from serverdyno.plan.model import GeneratorPlan
from support.dyno_process import PATIENCE_S
from support.fleet_level import carried, level
from support.fleet_nodes import RunningFleet
from support.reference_servers import start_http

MOST_S = 3.0
NO_SECRETS: dict[str, str | None] = {"consent_token": None, "password": None}


def over_after_s(gaps_s: list[float], late_s: float, *, patient: bool) -> float | None:
    """Return the time at which a listener that looks after these gaps gives up a silent speaker."""
    silence, now_s = Silence(MOST_S, 0.0), 0.0
    silence.heard(0.0, late_s)
    for gap_s in gaps_s:
        now_s += gap_s
        silence.look()
        if silence.is_over(now_s, patient=patient):
            return now_s
    return None


def test_between_two_with_cpu_time_silence_is_over_in_time() -> None:
    for patient in (False, True):
        assert over_after_s([LISTENER_LOOK_S] * 20, late_s=0.0, patient=patient) == MOST_S


def test_a_listener_that_had_no_cpu_time_looks_again_before_it_gives_up() -> None:
    assert over_after_s([60.0], late_s=0.0, patient=False) is None
    assert over_after_s([60.0] + [LISTENER_LOOK_S] * (LOOKS - 2), late_s=0.0, patient=False) is None
    assert over_after_s(
        [60.0] + [LISTENER_LOOK_S] * 20, late_s=0.0, patient=False
    ) == 60.0 + LISTENER_LOOK_S * (LOOKS - 1)


def test_time_by_which_a_listener_was_late_itself_is_no_silence() -> None:
    silence, looks, now_s = Silence(MOST_S, 0.0), 0, 0.0
    while not silence.is_over(now_s):
        now_s += 5 * LISTENER_LOOK_S
        silence.look(late_s=4 * LISTENER_LOOK_S)
        looks += 1
    assert looks == MOST_S / LISTENER_LOOK_S


@given(late_s=st.floats(0.0, 1e6), gap_s=st.floats(0.01, 10.0))
def test_a_speaker_that_was_late_is_given_time_and_not_for_ever(late_s: float, gap_s: float) -> None:
    gaps_s = [gap_s] * 10_000
    patient, strict = (over_after_s(gaps_s, late_s, patient=each) for each in (True, False))
    assert patient is not None
    assert strict is not None
    assert strict <= patient <= max(LONGEST_S, LOOKS * gap_s) + gap_s
    # Only late speakers get more time: a stopped node is detected within 5 s.
    assert late_s > 0.1 or patient <= max(MOST_S + 1.0, LOOKS * gap_s) + gap_s


def test_looks_before_a_stall_do_not_count_unless_all_is_silent_for_very_long() -> None:
    listener = Silence(MOST_S, 0.0)
    for _ in range(LOOKS):
        listener.look()
    listener.stood_still(MOST_S)
    listener.look()
    assert not listener.is_over(MOST_S)
    for _ in range(LOOKS):
        listener.look()
    listener.stood_still(LONGEST_S)
    assert listener.is_over(LONGEST_S)


def test_how_late_one_is_is_told_for_a_while_and_while_it_lasts() -> None:
    lateness = Lateness(0.0)
    assert lateness.lately_s(LISTENER_LOOK_S) == 0.0
    assert lateness.lately_s(LISTENER_LOOK_S + 2.0) == 2.0
    lateness.look(LISTENER_LOOK_S + 2.0)
    lateness.look(2 * LISTENER_LOOK_S + 2.0)
    assert lateness.lately_s(2 * LISTENER_LOOK_S + 2.0) == 2.0
    for number in range(1, 20):
        lateness.look((2 + number) * LISTENER_LOOK_S + 2.0)
    assert lateness.lately_s(21 * LISTENER_LOOK_S + 2.0) == 0.0
    assert 19 * LISTENER_LOOK_S > LATE_FOR_S


def test_a_controller_without_cpu_time_takes_no_node_for_one_that_can_not_be_reached(
    fleet: RunningFleet,
) -> None:
    async def asked(node: cluster.DaskNode) -> str:
        asking = asyncio.ensure_future(node._silence())
        for _ in range(2):  # until it is connecting
            await asyncio.sleep(0)
        time.sleep(2 * cluster.CONNECT_S)
        return await asking

    with cluster.connected(fleet.folder) as connection:
        [node] = all_nodes(connection, ["a"])
        try:
            assert connection.run(asked(node)) == cluster.STANDS_STILL
        finally:
            node.end()


STALLS_S = (2.0, 5.0)
"""After the first, short stall the node reports how late it was, so a longer one is tolerated."""


def test_a_node_that_gets_cpu_time_in_bursts_alone_carries_its_level_to_the_end(fleet: RunningFleet) -> None:
    def starve() -> None:
        for stall_s in STALLS_S:
            fleet.nodes["b"].send_signal(signal.SIGSTOP)
            time.sleep(stall_s)
            fleet.nodes["b"].send_signal(signal.SIGCONT)
            time.sleep(3 * LISTENER_LOOK_S)  # time for a look and a ping
        ended.set()

    server, ended = start_http(), threading.Event()
    try:
        target = http_target(f"http://127.0.0.1:{server.port}/")
        with fleet_at(fleet.path, GeneratorPlan(), target, NO_SECRETS) as nodes:
            starving = threading.Thread(target=starve)
            starving.start()
            try:
                together = carried(nodes, level(target, length_s=sum(STALLS_S), think_time_s=0.01))
            finally:
                starving.join(PATIENCE_S)
            assert ended.is_set()
            assert together["operations_total"] == sum(each.result.operations_total for each in nodes.figures)
    finally:
        server.stop()
