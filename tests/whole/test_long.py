"""What takes minutes: shipped plans from command to report, and a thousand clients; see `make test-long`."""

from __future__ import annotations

from pathlib import Path

import pytest

from serverdyno.plan.model import ServerPlan
from serverdyno.servers.running import running
from serverdyno.store.experiment import Experiment
from support.dyno_process import INSTALLED, Home
from support.experiments import carried_out, created
from support.file_server import needs_root, skip_unless_installed
from support.places import ROOT

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

SCALE = "0.25"
CLIENTS = 1000
PLANS = sorted(
    path.stem for path in (ROOT / "plans").glob("*.toml") if path.stem.startswith(("quick-", "demo-"))
)


@needs_root
@pytest.mark.parametrize("plan", PLANS)
def test_a_shipped_plan_runs_whole_and_no_operation_fails(plan: str, home: Home, tmp_path: Path) -> None:
    folder = tmp_path / "e"
    done = home.here("run", ROOT / "plans" / f"{plan}.toml", "--scale", SCALE, "--into", folder)
    assert done.returncode == 0, done.stderr
    with Experiment.open(folder) as opened:
        assert len(opened.finished()) == len(opened.head.order) * len(opened.head.mixes)
        assert opened.report_page.exists()
        failed = {row.fault for record in opened.mixes() for row in record.errors if record.cut_at_s is None}
    assert not failed


@pytest.mark.skipif("nginx" not in INSTALLED, reason="nginx is not installed")
def test_a_thousand_web_clients_are_served_without_an_error(home: Home, tmp_path: Path) -> None:
    with running("nginx", {}) as server:
        done = home.here("load", server.url, "-c", str(CLIENTS), "-d", "10s", "--into", tmp_path / "e")
    assert done.returncode == 0, done.stderr
    [record] = Experiment.open(tmp_path / "e").mixes()
    assert (record.clients_participating, record.failures) == (CLIENTS, 0)


@needs_root
def test_a_thousand_nfs_clients_are_served_without_an_error(tmp_path: Path) -> None:
    skip_unless_installed("ganesha.nfsd", "rpcbind")
    folder = created(tmp_path / "e", [CLIENTS], ServerPlan(server="ganesha"), workload="metadata")
    assert carried_out(folder)
    with Experiment.open(folder) as opened:
        [record] = opened.mixes()
    assert (record.clients_participating, record.failures) == (CLIENTS, 0)
