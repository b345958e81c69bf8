"""The rate limit applies to every request to a file server: look, log-ons, preparation, load and removal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from serverdyno.run import ask
from support.dyno_process import Home
from support.file_proxy import file_proxy, nfs_requests, smb_requests
from support.reference_servers import start_nfs, start_smb

RATE = 20
SPAN = 40
"""Number of successive requests whose time is compared with the rate."""
SUITE = """
name = "short"
title = "Short"
source = "a test"
workload = "metadata"
clients = [2, 4]
length_s = 1.3
[files]
cache = "none"
[files.metadata]
files = 2
file_bytes = 100
"""
PLAN = """
name = "p"
suite = "./short.toml"
repetitions = 1
{more}
[[servers]]
server = "external"
url = "{url}"
bounds = {{ max_clients = 9, max_rate_per_s = {rate}, max_length_s = 9 }}
"""
SMB, NFS3, NFS4 = "smb", "nfs", "nfs 4.1"

pytestmark = pytest.mark.usefixtures("short_windows")


@contextmanager
def noting(protocol: str) -> Iterator[tuple[str, list[float]]]:
    """Run a file server behind a proxy. Yield its URL and the arrival time of each request."""
    server = start_smb() if protocol == SMB else start_nfs()
    try:
        requests_of = smb_requests if protocol == SMB else nfs_requests
        with file_proxy(server.port, requests_of) as (port, came):
            more = {NFS3: f"?vers=3&mountport={port}", NFS4: "?vers=4.1"}.get(protocol, "")
            yield f"{protocol[:3]}://127.0.0.1:{port}/volume1{more}", came
    finally:
        server.stop()


def assert_bound(came: list[float]) -> None:
    """Check that any successive requests took at least half of the time that the rate implies."""
    assert len(came) > 2 * SPAN
    moments = sorted(came)
    spans_s = [later - earlier for earlier, later in zip(moments, moments[SPAN:], strict=False)]
    # The proxy may record some late; without a bound, all arrive within milliseconds.
    assert min(spans_s) > 0.5 * SPAN / RATE, spans_s
    assert moments[-1] - moments[0] > 0.9 * (len(moments) - SPAN) / RATE


@pytest.mark.parametrize(
    ("protocol", "more"),
    [(SMB, ""), (SMB, "generator = { processes = 2 }"), (NFS3, ""), (NFS4, "")],
)
def test_every_request_of_a_load_keeps_the_bound(
    home: Home, tmp_path: Path, protocol: str, more: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ask, "SLOW_S", 0.0)
    (tmp_path / "short.toml").write_text(SUITE)
    with noting(protocol) as (url, came):
        (tmp_path / "plan.toml").write_text(PLAN.format(url=url, rate=RATE, more=more))
        done = home.here("run", tmp_path / "plan.toml", "--into", tmp_path / "e")
    told = " ".join(done.stderr.split())
    assert done.returncode == 0 and "could not be removed" not in told, told
    assert (
        f"the limit of {RATE} requests/s also applies before and after the load: the clients need about"
        in told
    )
    assert_bound(came)


@pytest.mark.parametrize("protocol", [SMB, NFS3])
def test_every_request_of_bonnie_keeps_the_bound(home: Home, protocol: str) -> None:
    options = ("-s", "1", "--chunk", "1048576", "--seeks", "4", "--seekers", "4")
    with noting(protocol) as (url, came):
        done = home.here("bonnie", "-d", url, *options, "--max-rate", f"{RATE}")
    assert done.returncode == 0, done.stderr
    assert_bound(came)


def test_clients_that_would_be_silent_for_too_long_are_refused(home: Home, tmp_path: Path) -> None:
    (tmp_path / "short.toml").write_text(SUITE)
    with noting(SMB) as (url, came):
        (tmp_path / "plan.toml").write_text(PLAN.format(url=url, rate=0.1, more=""))
        done = home.here("run", tmp_path / "plan.toml", "--into", tmp_path / "e")
    told = " ".join(done.stderr.split())
    assert done.returncode != 0 and "4 clients with 0.1 requests/s at most would each" in told, told
    assert "Use 3 clients at most" in told and came == []
