"""Packets of a load on objects as tshark reads them: every request that the server counted, and nothing malformed."""

from __future__ import annotations

from pathlib import Path

import pytest

from serverdyno.store.experiment import Experiment
from support.dyno_process import Home
from support.reference_servers import start_s3
from support.wire import HTTP1, WRONG, captured, dissected, values

EVERY = "get=5,put=4,head=3,delete=2,list=2,copy=1,get_range=1,delete_many=1"
# The rate bounds the number of requests, so that dissecting takes seconds.
LOAD = (
    "--rate",
    "500",
    "--clients",
    "4",
    "--length",
    "2.5s",
    "--size",
    "3000",
    "--objects",
    "8",
    "--mix",
    EVERY,
)


@pytest.mark.usefixtures("short_windows")
@pytest.mark.parametrize("payload", ["unsigned", "signed", "chunked"])
def test_tshark_finds_every_request_on_objects_and_nothing_malformed(
    home: Home, tmp_path: Path, payload: str
) -> None:
    capture, no_keys = tmp_path / "load.pcapng", tmp_path / "keys"
    server = start_s3()
    try:
        with captured(server.port, capture):
            url = f"s3://127.0.0.1:{server.port}/volume1"
            done = home.here("objects", url, *LOAD, "--payload", payload, "--into", tmp_path / "e")
        counted = server.requests()
    finally:
        server.stop()
    [record] = Experiment.open(tmp_path / "e").levels()
    assert record.errors == [], done.stderr
    methods, statuses = values(
        capture, server.port, no_keys, HTTP1, "http.request.method", "http.response.code"
    )
    assert methods.total() == statuses.total() == sum(counted.values()) > 200
    assert methods.keys() == {"GET", "PUT", "HEAD", "DELETE", "POST"}
    assert dissected(capture, server.port, no_keys, HTTP1, "-Y", WRONG) == []
