"""Messages between controllers and nodes are short and arrive unchanged; each exchange bounds a clock."""

from __future__ import annotations

import json
import tracemalloc
import zlib

import pytest
from benches.levels import http_target
from hypothesis import given
from hypothesis import strategies as st

from serverdyno import _native
from serverdyno.errors import DynoError
from serverdyno.fleet import cluster
from serverdyno.fleet.clock import CLOSE_NS, EXCHANGES, measured
from serverdyno.fleet.contract import Exchange
from serverdyno.fleet.membership import all_nodes
from serverdyno.fleet.packing import MOST_ANSWER_BYTES, MOST_REQUEST_BYTES, RAW, packed, unpacked
from serverdyno.fleet.processes import processes
from serverdyno.plan.model import MAX_CLIENTS, MAX_LENGTH_S
from serverdyno.plan.protocols import load_file
from support.dyno_process import PATIENCE_S
from support.fleet_level import carried, level
from support.fleet_nodes import RunningFleet
from support.reference_servers import start_http

NO_SECRETS: dict[str, str | None] = {"consent_token": None, "password": None}
WORDS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def deflated(plain: bytes) -> bytes:
    packer = zlib.compressobj(wbits=RAW)
    return packer.compress(plain) + packer.flush()


@given(words=WORDS, blob=st.none() | st.binary())
def test_words_and_the_bytes_behind_them_come_as_they_were_said(words: object, blob: bytes | None) -> None:
    assert unpacked(packed(words, blob), MOST_ANSWER_BYTES) == (words, blob)


def test_no_more_is_inflated_than_a_message_may_have() -> None:
    bomb = packed(None, bytes(16 << 20))
    assert len(bomb) < 1 << 15
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"^the message has more than 1 MiB$"):
            unpacked(bomb, 1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_a_message_may_have_as_many_bytes_as_is_said_and_none_more() -> None:
    message = packed(7, b"four")  # six bytes with the mark between them
    assert unpacked(message, 6) == (7, b"four")
    with pytest.raises(ValueError, match="more than"):
        unpacked(message, 5)


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (b"", "^the message is incomplete$"),
        (packed({"told": None}, b"rows" * 9)[:-3], "^the message is incomplete$"),
        (b"\xff no deflate", "^the message is damaged: "),
        (deflated(b"{"), "^the message is not JSON: "),
    ],
    ids=["empty", "cut short", "not deflated", "not JSON"],
)
def test_what_is_no_message_is_refused_in_words(message: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        unpacked(message, MOST_ANSWER_BYTES)


def test_the_longest_messages_are_within_their_bounds() -> None:
    assert MOST_REQUEST_BYTES > 1.4 * load_file.MOST_BYTES  # data that can't be compressed, as base64
    a_client_bytes, a_second_bytes = 56 + 200, 64  # with an outage per client
    assert 4 * (MAX_CLIENTS * a_client_bytes + MAX_LENGTH_S * a_second_bytes) < MOST_ANSWER_BYTES


def test_node_and_controller_tell_each_other_what_they_can_not_read(
    fleet: RunningFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cluster.connected(fleet.folder) as connection:
        [node] = all_nodes(connection, ["a"])
        with monkeypatch.context() as patched:
            patched.setattr(cluster, "packed", lambda words: json.dumps(words).encode())
            node.ask("clock")
            with pytest.raises(ValueError, match=r"^a can't read a request: the message is damaged"):
                node.answer()
        with monkeypatch.context() as patched:
            patched.setattr(cluster, "MOST_ANSWER_BYTES", 4)
            node.ask("clock")
            with pytest.raises(DynoError, match=r"^can't parse the answer from node a: the message has more"):
                node.answer()
        node.ask("clock")
        assert node.answer() is None  # it is still there
        node.end()


def test_a_result_of_few_clients_is_less_than_a_third_of_its_size() -> None:
    target = _native.Target.open("null", '{"url": "null:"}')
    told = level(target, clients=1, length_s=1.0) | {"workload": {"name": "null", "delay_s": 0.1}}
    load = _native.prepare(json.dumps(told), target).start()
    assert load.wait(PATIENCE_S)
    tally = load.tally()
    assert len(packed({"told": None}, tally)) < len(tally) / 3


def test_a_level_that_says_only_what_has_changed_is_the_one_that_says_all() -> None:
    server = start_http()
    try:
        target = http_target(f"http://127.0.0.1:{server.port}/")
        few = {"digest_operations": 2}
        documents = [
            level(target, clients=3, length_s=0.3, **few),
            level(target, clients=7, length_s=0.4, seed=8, threads=2, think_time_s=0.01, **few),
            level(target, clients=1, length_s=0.3, **few),
            level(target, clients=5, length_s=0.3, max_rate_per_s=1000.0, **few),
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
    """A node with only the times of its exchanges, one per request."""

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
    found = measured(node)  # type: ignore[arg-type]  # `measured` calls no other methods
    assert abs(found.offset_ns - offset_ns) <= found.error_ns
    assert found.error_ns <= CLOSE_NS or node.exchange is exchanges[EXCHANGES - 1]
