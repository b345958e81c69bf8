"""Counts are correct, compared with servers' own counts and with faults that are known beforehand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from benches.levels import http_target, web_level

from serverdyno import _native
from serverdyno.servers.running import running
from support.dyno_process import INSTALLED, PATIENCE_S
from support.reference_servers import start_http

ALL_IN_TIME: dict[str, Any] = {
    "clients": 3,
    "threads": 2,
    "length_s": 0.6,
    "ramp_up_s": 0.1,
    "ramp_down_s": 0.1,
}
TREE, URL = "webbench-static", "url"
OK = None
# The side and the names of the error that each fault of the reference server causes; OK if the answer is right.
EXPECTED: dict[str, tuple[str, set[str]] | None] = {
    "delay=5ms": OK,
    "random-delay=5ms": OK,
    "tire=100": OK,
    "stall": ("server", {"response_timeout"}),
    "endless-head": ("server", {"head_too_large"}),
    "huge-head": ("server", {"head_too_large"}),
    "short-body": ("server", {"closed_early"}),
    "long-body": ("server", {"excess_data"}),
    "bad-chunk": ("server", {"malformed_chunk"}),
    # The server gives up after a while; on a fast machine, before the client's timeout.
    "endless-chunks": ("server", {"closed_early", "response_timeout"}),
    "early-close": ("server", {"closed_early"}),
    # The name depends on whether the request arrived before the close.
    "close-at-once": ("server", {"closed_early", "connection_reset"}),
    "reset": ("server", {"connection_reset"}),
    "garbage": ("server", {"malformed_head"}),
    "wrong-content": ("check", {"wrong_content"}),
    "wrong-length": ("check", {"wrong_length"}),
    "status-500": ("server", {"error_status"}),
    "close-idle=2": OK,
    "chunked": OK,
    "close-delimited": OK,
    "truncate": OK,  # without TLS this equals a body that ends with the connection
    "slow-drip=100": OK,
    "interim": OK,
}


@contextmanager
def reference(**options: Any) -> Iterator[tuple[_native.ReferenceServer, _native.Target]]:
    server = start_http(**options)
    try:
        yield server, http_target(f"http://127.0.0.1:{server.port}/")
    finally:
        server.stop()


def result_of(target: _native.Target, workload: Any = TREE, **level: Any) -> dict[str, Any]:
    """Run a level to its end."""
    load = web_level(target, workload=workload, **(ALL_IN_TIME | level)).start()
    assert load.wait(PATIENCE_S), "the level does not end"
    return load.result()


def assert_sums_agree(result: dict[str, Any]) -> None:
    """Check that every breakdown adds up to its total, and that no part exceeds its whole."""
    by_operation, by_client, by_second = result["by_operation"], result["by_client"], result["by_second"]
    errors = result["errors"]
    assert sum(row["count"] for row in by_operation) == result["operations"]
    assert sum(row["operations"] for row in by_client) == result["operations"]
    assert sum(row["operations"] for row in by_second) == result["operations_total"]
    assert sum(row["bytes_read"] for row in by_operation) == result["bytes_read"]
    assert sum(row["bytes_in"] for row in by_client) == result["bytes_in"]
    assert sum(row["errors"] for row in by_client) == sum(row["count"] for row in errors)
    assert sum(row["errors"] for row in by_second) == sum(row["count"] for row in errors)
    assert sum(row["errors"] for row in by_operation) == sum(row["in_window"] for row in errors)
    assert all(row["in_window"] <= row["count"] for row in errors)
    assert result["operations"] <= result["operations_total"]
    assert result["bytes_read"] <= result["bytes_in"] <= sum(row["bytes_in"] for row in by_second)
    times = _native.Histogram.from_bytes(result["response_time_hdr"])
    assert times.count == result["operations"]
    parts = [_native.Histogram.from_bytes(row["response_time_hdr"]).count for row in by_operation]
    assert parts == [row["count"] for row in by_operation]


@pytest.mark.parametrize(
    ("settings", "level"),
    [
        ({}, {}),
        ({}, {"http_version": "1.0", "keep_alive": False}),
        ({}, {"http_version": "1.0", "keep_alive": False, "close": "reset"}),
        ({"keep_alive_requests": 10}, {"engine_threads": 2}),
    ],
    ids=["keep-alive", "a-connection-per-request", "closed-with-a-reset", "closed-by-the-server-after-10"],
)
def test_nginx_logs_as_many_requests_as_were_counted(settings: dict[str, Any], level: dict[str, Any]) -> None:
    if "nginx" not in INSTALLED:
        pytest.skip("nginx is not installed here")
    with running("nginx", {"access_log": True} | settings) as server:
        before = server.requests_served()
        result = result_of(http_target(server.url), **level)
        after = server.requests_served()
    assert before is not None and after is not None
    assert result["errors"] == []
    assert result["operations_total"] == after - before > 100
    assert_sums_agree(result)
    if level.get("keep_alive", True) is False:
        assert result["connections"] == result["operations_total"]


@pytest.mark.parametrize("keep_alive", [True, False])
def test_the_reference_server_counts_as_many_requests_as_were_counted(keep_alive: bool) -> None:
    with reference() as (server, target):
        result = result_of(target, keep_alive=keep_alive)
        assert result["operations_total"] == server.requests > 100
    assert result["errors"] == []
    assert_sums_agree(result)


def test_what_the_server_delays_no_percentile_hides() -> None:
    with reference(fault="delay=20ms", body_bytes=1000) as (_, target):
        result = result_of(target, URL)
    assert_sums_agree(result)
    times = _native.Histogram.from_bytes(result["response_time_hdr"])
    quantiles = [0.0, 0.01, 0.1, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0]
    found = [times.value_at(quantile) for quantile in quantiles]
    assert found == sorted(found)
    assert times.min >= 20e6 and found[0] >= 20e6
    assert times.mean_and_deviation()[0] >= 20e6
    # Each of six request streams has at most as many answers as fit into the window in sequence.
    assert 0 < result["operations"] <= 6 * (result["window_s"] / 0.020 + 1)
    assert result["bytes_read"] == 1000 * result["operations"]


def test_every_fault_of_the_reference_server_is_known_here() -> None:
    assert [name for name, _ in _native.reference_faults("http")] == list(EXPECTED)


@pytest.mark.parametrize("fault", [name for name, expected in EXPECTED.items() if expected is not OK])
def test_a_fault_is_counted_once_with_its_name_and_side(fault: str) -> None:
    expected = EXPECTED[fault]
    assert expected is not None
    side, names = expected
    # The timeout is short only if it is the expected fault.
    is_late = "response_timeout" in names
    # The level ends once all clients have left, however long that takes. Late answers are errors within the window
    # only.
    once = {
        "threads": 1,
        "leave_after_errors": 1,
        "timeout_s": 0.2 if is_late else PATIENCE_S,
        "length_s": 30.0,
        "ramp_down_s": 28.5 if is_late else 29.8,
    }
    with reference(fault=fault) as (_, target):
        result = result_of(target, **once)
    assert_sums_agree(result)
    assert {row["side"] for row in result["errors"]} == {side}
    assert {row["fault"] for row in result["errors"]} <= names
    assert [row["errors"] for row in result["by_client"]] == [1, 1, 1]
    assert result["clients_participating"] == 0
    assert result["operations_total"] == 0


@pytest.mark.parametrize("fault", [name for name, expected in EXPECTED.items() if expected is OK])
def test_an_unusual_answer_that_is_right_is_a_success(fault: str) -> None:
    with reference(fault=fault) as (server, target):
        result = result_of(target)
        assert result["operations_total"] == server.requests > 0
    assert result["errors"] == []
    assert result["clients_participating"] == 3
    assert_sums_agree(result)


def test_clients_that_stay_have_each_of_their_errors_counted() -> None:
    with reference(fault="status-500", body_bytes=100) as (server, target):
        result = result_of(target, URL)
        made = server.requests
    [row] = result["errors"]
    assert (row["side"], row["fault"], row["count"]) == ("server", "error_status", made)
    assert result["operations_total"] == 0
    assert result["clients_participating"] == 3
    assert_sums_agree(result)


def test_what_the_window_closes_upon_is_counted_apart_and_followed_to_its_end() -> None:
    # Eight answers take longer than the window: no figure contains them, but all are awaited.
    server = start_http(body_bytes=100, fault="delay=700ms")
    try:
        target = http_target(f"http://127.0.0.1:{server.port}/")
        load = web_level(target, workload="url", clients=8, threads=1, length_s=0.4).start()
        assert load.wait(30)
    finally:
        server.stop()
    result = load.result()
    assert (result["operations"], result["operations_total"]) == (0, 8)
    assert result["under_way_at_close"] == 8
    assert 0.7 <= result["under_way_longest_s"] < 30
