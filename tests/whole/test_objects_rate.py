"""`--max-rate` applies to every request to a bucket: the look, the preparation, the load and the removal."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from serverdyno import _native
from support.dyno_process import PATIENCE_S, Home
from support.objects import keys
from support.reference_servers import start_s3
from support.s3_proxy import Answer, Asked, s3_proxy

RATE = 10
SPANS = (8, 20)
"""Numbers of successive requests whose time is compared with the rate."""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "home").mkdir()
    return Home(tmp_path / "home")


def arrivals(home: Home, *options: str) -> list[tuple[float, str]]:
    """Return the arrival time and the method of each request of a run to a bucket without a key."""
    came: list[tuple[float, str]] = []

    def noted(asked: Asked) -> Answer:
        came.append((time.monotonic(), asked.method))
        return asked.passed_on()

    server: _native.ReferenceS3 = start_s3()
    try:
        with s3_proxy(server.port, noted) as port:
            url = f"s3://127.0.0.1:{port}/volume1"
            done = home.here("objects", url, "--max-rate", f"{RATE}", "--repetitions", "1", *options)
        assert keys(server.port) == []
    finally:
        server.stop()
    assert done.returncode == 0, done.stderr
    return came


def assert_bound(came: list[tuple[float, str]]) -> None:
    """Check that requests took at least half of the time that the rate implies, also at the beginning and the end."""
    moments = [moment for moment, _ in came]
    for number in (*SPANS, len(moments)):
        # The proxy may record one late; without a bound, all arrive within milliseconds.
        for ends in ((0, number - 1), (-number, -1)):
            span_s = moments[ends[1]] - moments[ends[0]]
            assert span_s > 0.5 * (number - 1) / RATE, (number, ends, came)


def test_every_request_keeps_the_bound_of_the_rate(home: Home) -> None:
    came = arrivals(home, "--clients", "4", "--length", "1s", "--size", "1000", "--objects", "4")
    methods = [method for _, method in came]
    assert methods.count("PUT") >= 16 and "POST" in methods
    assert_bound(came)


def test_a_long_preparation_is_told_before_it_begins(home: Home) -> None:
    server: _native.ReferenceS3 = start_s3()
    try:
        url = f"s3://127.0.0.1:{server.port}/volume1"
        options = (
            "--max-rate",
            "50",
            "--clients",
            "1,2",
            "--objects",
            "3000",
            "--size",
            "10",
            "--length",
            "1s",
        )
        with home.started("objects", url, *options) as tool:
            assert tool.stderr is not None
            said = ""
            while "owner agrees" not in said:  # the end of the hint
                line = tool.stderr.readline()
                assert line, said
                said += line
            upload = "takes at least 2 min, because its 6,000 requests are limited to 50 requests/s"
            assert upload in " ".join(said.split())
            assert "starting target" not in said and said.count("before the load") == 1
            tool.terminate()
            said += tool.communicate(timeout=PATIENCE_S)[1]
        assert "hint: Use fewer --objects or --clients, or a higher --max-rate" in " ".join(said.split()), (
            said
        )
        assert keys(server.port) == []
    finally:
        server.stop()


def test_each_part_of_an_upload_is_a_request(home: Home) -> None:
    parts = ("--size", "10485760", "--part-bytes", "5242880", "--parts-in-flight", "2", "--mix", "put=1")
    came = arrivals(home, "--clients", "1", "--length", "2s", "--objects", "1", *parts)
    methods = [method for _, method in came]
    assert methods.count("PUT") >= 4 and methods.count("POST") >= 4
    assert_bound(came)
