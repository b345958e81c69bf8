"""Messages about real servers that accept fewer connections than a load level has clients."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.dyno_process import Home
from support.users_smbd import PASSWORD, USER, started
from support.users_web import haproxy, nginx

pytestmark = pytest.mark.usefixtures("short_windows")
FEW = """
limit_conn_zone $binary_remote_addr zone=each:1m;
server { listen 127.0.0.1:{port}; limit_conn each 2; location / { limit_rate 20k; root .; } }
"""
QUEUE = """
frontend web
  bind 127.0.0.1:{port}
  maxconn 2
  default_backend documents
backend documents
  server one 127.0.0.1:%d
"""
EACH_ADDRESS = """
frontend web
  bind 127.0.0.1:{port}
  stick-table type ip size 1k expire 1h store conn_cnt
  tcp-request connection track-sc0 src
  tcp-request connection %s if { sc0_conn_cnt gt 20 }
  default_backend documents
backend documents
  server one 127.0.0.1:%d
"""
STREAMS = """
name = "four"
title = "Four clients"
source = "our own"
workload = "streams"
clients = [4]
length_s = 1.5
ramp_up_s = 0.2
ramp_down_s = 0.2
[files]
cache = "none"
[files.streams]
file_bytes = 1048576
"""
PLAN = """
name = "limited"
suite = "./suite.toml"
repetitions = 1
[[servers]]
server = "external"
url = "%s"
settings = { %s }
"""


def planned(at: Path, url: str, settings: str, suite: str) -> Path:
    """Return a plan with one user's server and this suite."""
    (at / "suite.toml").write_text(suite)
    (at / "plan.toml").write_text(PLAN % (url, settings))
    return at / "plan.toml"


def test_clients_that_a_share_does_not_take_are_said_to_have_never_begun(home: Home, tmp_path: Path) -> None:
    server = started(tmp_path, shares={"few": "max connections = 2"})
    try:
        settings = f'shares = ["few"], user = "{USER}", password_variable = "DYNO_SMB_PASSWORD"'
        plan = planned(tmp_path, server.url, settings, STREAMS)
        done = home.here("run", plan, DYNO_SMB_PASSWORD=PASSWORD)
    finally:
        server.kill()
    assert done.returncode == 0, done.stderr
    assert "2 of 4 clients could not begin" in done.stderr
    shown = " ".join(done.stdout.split())
    assert "with 4 clients, 2 of them unable to begin." in shown
    assert "Clients could not begin at 1 of 1 load level" in shown
    assert "2 clients could not begin." in shown and "early" not in shown
    assert (
        shown.count("The share accepts no more connections: its limit is reached (Samba: max connections)")
        == 1
    )


def test_clients_that_a_limit_of_connections_refuses_have_its_hint_once(home: Home, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("x" * 30_000)
    with nginx(tmp_path, FEW) as port:
        done = home.here("load", f"http://127.0.0.1:{port}/", "--clients", "8", "--length", "3s")
    shown = " ".join(done.stdout.split())
    assert "requests to target failed with 8 clients" in shown
    assert shown.count("limits the rate or the number of connections") == 1


def test_clients_that_wait_for_a_place_in_a_proxy_have_the_probable_limit(home: Home, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("hello")
    with (
        nginx(tmp_path, "server { listen 127.0.0.1:{port}; root .; }") as behind,
        haproxy(tmp_path, QUEUE % behind) as port,
    ):
        url = f"http://127.0.0.1:{port}/"
        done = home.here("load", url, "--clients", "6", "--length", "1s")
        shown = " ".join(done.stdout.split())
        assert "with 6 clients, 4 of them without a completed request." in shown
        assert "probably serves no more than 2 connections at once" in shown


@pytest.mark.parametrize("refusal", ["reject", "silent-drop"])
def test_an_address_that_is_shut_out_once_the_load_begins_has_the_probable_limit(
    refusal: str, home: Home, tmp_path: Path
) -> None:
    (tmp_path / "index.html").write_text("hello")
    with (
        nginx(tmp_path, "server { listen 127.0.0.1:{port}; root .; }") as behind,
        haproxy(tmp_path, EACH_ADDRESS % (refusal, behind)) as port,
    ):
        # The limit is reached in the ramp, so that nothing succeeds in the window.
        limited = ("--no-keep-alive", "--clients", "4", "--ramp", "1s", "--length", "3s", "--timeout", "2s")
        done = home.here("load", f"http://127.0.0.1:{port}/", *limited)
    assert done.returncode == 1 and "FAILED" in done.stderr, done.stderr
    said = " ".join(done.stderr.split())
    assert "may limit the connections of one address" in said and "HAProxy: stick-table" in said
    assert "PROXY protocol" not in said and "hosts that it does not know" not in said
