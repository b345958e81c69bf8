"""A user's server on this machine is found by its port; drivers in other packages, by their entry point."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from serverdyno.plan.model import ServerPlan
from serverdyno.servers.proof import free_port
from serverdyno.servers.running import running
from serverdyno.servers.users_process import UsersProcess
from serverdyno.store.experiment import Experiment
from support.dyno_process import INSTALLED, Home, experiment
from support.file_server import skip_unless_installed
from support.reference_servers import start_http


def test_a_server_inside_the_process_that_makes_the_load_is_unknown() -> None:
    server = start_http(body_bytes=10)
    try:
        assert UsersProcess.listening_at(f"127.0.0.1:{server.port}") is None
    finally:
        server.stop()


def test_where_nobody_listens_nothing_is_known() -> None:
    assert UsersProcess.listening_at(f"127.0.0.1:{free_port()}") is None


@pytest.mark.skipif("nginx" not in INSTALLED, reason="nginx is not installed here")
def test_the_users_server_is_its_master_and_its_workers() -> None:
    with running("nginx", {"workers": 2}) as server:
        found = UsersProcess.listening_at(urlsplit(server.url).netloc)
        assert found is not None
        assert set(found.pids()) == {pid for pid in server.pids() if psutil.Process(pid).name() == "nginx"}
        ours, theirs = server.cpu_s(), found.cpu_s()
        assert ours is not None and theirs is not None and theirs <= server.cpu_s() + 0.1  # type: ignore[operator]
        # Memory that master and workers share counts once.
        resident_bytes = sum(psutil.Process(pid).memory_info().rss for pid in found.pids())
        assert 0 < found.rss_bytes() < resident_bytes  # type: ignore[operator]
        assert "nginx" in found.program()
    assert (found.cpu_s(), found.rss_bytes(), found.pids()) == (None, None, [])


def test_a_server_at_the_other_address_of_loopback_is_found() -> None:
    skip_unless_installed("perl")
    made = "IO::Socket::IP->new(LocalHost => '::1', Listen => 5)"
    listen = f"use IO::Socket::IP; $| = 1; $made = {made}; print $made->sockport, qq(\\n); <STDIN>"
    with subprocess.Popen(
        ["perl", "-e", listen], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as there:
        assert there.stdout is not None
        port = int(there.stdout.readline())
        found = UsersProcess.listening_at(f"[::1]:{port}")
        assert found is not None and there.pid in found.pids()
        assert UsersProcess.listening_at(f"127.0.0.1:{port}") is None
        there.communicate("\n")


@pytest.mark.skipif("nginx" not in INSTALLED, reason="nginx is not installed here")
def test_cpu_and_memory_of_the_users_server_are_in_the_records(home: Home, tmp_path: Path) -> None:
    with running("nginx", {"workers": 1}) as server:
        mine = ServerPlan(server="external", name="mine", url=server.url)
        folder = experiment(tmp_path / "e", [mine], clients=[2], length_s=1.2)
        done = home.here("resume", folder)
    assert done.returncode == 0, done.stderr
    [record] = Experiment.open(folder).levels()
    assert record.server_cpu_s is not None and record.server_cpu_s > 0
    assert record.server_rss_bytes and record.others_cpu_s is not None
    notes = Experiment.open(folder).disclosure()["servers"]["mine"]["notes"]
    assert any(
        "Started by the user on this machine: CPU time and memory are those of nginx" in note
        for note in notes
    )


DRIVER = """
from serverdyno.servers.reference import Reference

class Elsewhere(Reference):
    name = "elsewhere"
    summary = "a driver from outside the tree"
"""


def test_a_driver_of_another_package_is_listed_and_may_be_planned(tmp_path: Path) -> None:
    (tmp_path / "elsewhere.py").write_text(DRIVER)
    metadata = tmp_path / "elsewhere-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[serverdyno.servers]\nelsewhere = elsewhere:Elsewhere\n")
    plan = tmp_path / "plan.toml"
    plan.write_text('name = "p"\nsuite = "quick-web"\n[[servers]]\nserver = "elsewhere"\n')
    for arguments, words in (
        (["servers", "elsewhere"], "a driver from outside the tree"),
        (["plan", "check", plan], "001-elsewhere-r1"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "serverdyno", *map(str, arguments)],
            env=os.environ | {"PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert words in done.stdout
