"""What controllers and nodes say to each other is short, and comes as it was said. Each exchange bounds a clock."""

from __future__ import annotations

import json

import pytest
from benches.mixes import http_target
from hypothesis import given
from hypothesis import strategies as st

from dyno_process import PATIENCE_S
from fleet_mix import carried, mix
from serverdyno import _native
from serverdyno.fleet.clock import CLOSE_NS, EXCHANGES, measured
from serverdyno.fleet.contract import Exchange
from serverdyno.fleet.packing import packed, unpacked
from serverdyno.fleet.processes import processes

NO_SECRETS: dict[str, str | None] = {"consent_token": None, "password": None}
WORDS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(words=WORDS, blob=st.none() | st.binary())
def test_words_and_the_bytes_behind_them_come_as_they_were_said(words: object, blob: bytes | None) -> None:
    assert unpacked(packed(words, blob)) == (words, blob)


def test_a_result_of_few_clients_is_less_than_a_third_of_its_size() -> None:
    target = _native.Target.open("null", '{"url": "null:"}')
    told = mix(target, clients=1, length_s=1.0) | {"workload": {"name": "null", "delay_s": 0.1}}
    load = _native.prepare(json.dumps(told), target).start()
    assert load.wait(PATIENCE_S)
    tally = load.tally()
    assert len(packed({"told": None}, tally)) < len(tally) / 3


def test_a_mix_that_says_only_what_has_changed_is_the_one_that_says_all() -> None:
    server = _native.ReferenceServer.start()
    try:
        target = http_target(f"http://127.0.0.1:{server.port}/")
        few = {"digest_operations": 2}
        documents = [
            mix(target, clients=3, length_s=1.0, **few),
            mix(target, clients=7, length_s=1.5, seed=8, threads=2, think_time_s=0.01, **few),
            mix(target, clients=1, length_s=1.0, **few),
            mix(target, clients=5, length_s=1.0, max_rate_per_s=1000.0, **few),
        ]
        with processes(2, target, NO_SECRETS) as fleet:
            together = [carried(fleet, told) for told in documents]
        for told, result in zip(documents, together, strict=True):
            load = _native.prepare(json.dumps(told), target).start()
            assert load.wait(PATIENCE_S)
            assert result["digests"] == load.result()["digests"]
            assert result["clients_planned"] == told["clients"]
            assert result["window_s"] == pytest.approx(told["window"]["length_s"])
    finally:
        server.stop()


class Pinged:
    """A node of which only the moments of its exchanges are known, one a request."""

    on_this_clock = False

    def __init__(self, exchanges: list[Exchange]) -> None:
        self._exchanges, self.exchange = exchanges[1:], exchanges[0]

    def ask(self, do: str) -> None:
        assert do == "clock"

    def answer(self) -> None:
        self.exchange = self._exchanges.pop(0)


NS = st.integers(0, 10**9)


@given(offset_ns=st.integers(-(10**15), 10**15), ways=st.lists(st.tuples(NS, NS, NS), min_size=EXCHANGES))
def test_an_offset_is_never_further_off_than_it_says_however_uneven_the_ways(
    offset_ns: int, ways: list[tuple[int, int, int]]
) -> None:
    exchanges, now_ns = [], 0
    for there_ns, works_ns, back_ns in ways:
        heard_ns = now_ns + there_ns
        said_ns = heard_ns + works_ns
        came_ns = said_ns + back_ns
        exchanges.append(Exchange(now_ns, heard_ns + offset_ns, said_ns + offset_ns, came_ns))
        now_ns = came_ns
    node = Pinged(exchanges)
    found = measured(node)  # type: ignore[arg-type]  # of a node no more is asked
    assert abs(found.offset_ns - offset_ns) <= found.error_ns
    assert found.error_ns <= CLOSE_NS or node.exchange is exchanges[EXCHANGES - 1]
