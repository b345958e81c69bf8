"""Tests that take minutes: shipped plans from command to report, and a thousand clients; see `make test-long`."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import nullcontext
from pathlib import Path

import pytest

from serverdyno.servers.registry import DRIVERS
from serverdyno.store.experiment import Experiment
from serverdyno.store.records import LevelRecord
from support.dyno_process import Home
from support.file_server import needs_root
from support.fleet_nodes import running_fleet
from support.places import ROOT

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

SCALE = "0.34"
"""Smallest scale at which the windows of all plans are long enough."""
CLIENTS = 1000
PLANS = sorted(
    path.stem for path in (ROOT / "plans").glob("*.toml") if path.stem.startswith(("quick-", "demo-"))
)


def finished(home: Home, plan: Path, folder: Path, *options: str) -> list[LevelRecord]:
    """Run a plan to its end, and return the records of its levels."""
    done = home.here("run", plan, *options, "--into", folder)
    assert done.returncode == 0, done.stderr
    with Experiment.open(folder) as opened:
        assert len(opened.finished()) == len(opened.head.order) * len(opened.head.levels)
        assert opened.report_page.exists()
        return list(opened.levels())


@needs_root
@pytest.mark.parametrize("plan", PLANS)
def test_a_shipped_plan_runs_whole_and_no_operation_fails(plan: str, home: Home, tmp_path: Path) -> None:
    path = Path(shutil.copytree(ROOT / "plans", tmp_path / "plans")) / f"{plan}.toml"
    nodes = ("a", "b", "c", "s") if "fleet" in path.read_text() else ()
    with running_fleet(tmp_path / "lab", nodes) if nodes else nullcontext():
        records = finished(home, path, tmp_path / "e", "--scale", SCALE)
    assert not {row.fault for record in records for row in record.errors if record.cut_at_s is None}


@needs_root
@pytest.mark.parametrize(("server", "suite"), [("nginx", "quick-web"), ("ganesha", "quick-metadata")])
def test_a_thousand_clients_are_served_without_an_error(
    server: str, suite: str, home: Home, tmp_path: Path
) -> None:
    if DRIVERS[server].installed() is None:
        pytest.skip(f"{server} is not installed here: run tools/install-servers.sh tests")
    plan = tmp_path / "plan.toml"
    plan.write_text(f'name = "many"\nsuite = "{suite}"\nrepetitions = 1\n[[servers]]\nserver = "{server}"\n')
    [record] = finished(home, plan, tmp_path / "e", "--clients", str(CLIENTS))
    assert (record.clients_participating, record.failures) == (CLIENTS, 0), record.errors


IN_A_COPY = """
set -e
mount -t tmpfs none "$1"; cd "$1"; mkdir upper work root
mount -t overlay overlay -o lowerdir=/,upperdir=upper,workdir=work root
for each in proc dev sys; do mount --rbind /$each root/$each; done
cp "$2" root/root/install
printf '#!/bin/sh\\nexit 101\\n' >root/usr/sbin/policy-rc.d; chmod 755 root/usr/sbin/policy-rc.d
chroot root dpkg --purge nfs-ganesha-vfs nfs-ganesha caddy >/dev/null
rm root/usr/sbin/policy-rc.d
chroot root sh /root/install
chroot root find /etc/systemd/system -type l -name '*.service'
"""


@needs_root
def test_no_service_of_a_server_that_is_installed_starts_at_the_next_boot(tmp_path: Path) -> None:
    script = ROOT / "tools" / "install-servers.sh"
    command: list[str | Path] = [
        "unshare",
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-c",
        IN_A_COPY,
        "sh",
        tmp_path,
        script,
    ]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
    )
    said, *enabled = done.stdout.split("undoes that).")
    assert "disabled the new services: caddy.service nfs-ganesha-lock.service nfs-ganesha.service" in said
    assert not {"caddy.service", "nfs-ganesha.service"} & {
        Path(line).name for line in "".join(enabled).split()
    }
