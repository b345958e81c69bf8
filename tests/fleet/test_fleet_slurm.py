"""Nodes that Slurm starts: private instances of its controller, daemon and munge on this machine.

Skipped if they are not installed, as in CI: `apt-get install slurm-wlm munge`.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from benches.levels import http_target

from serverdyno.fleet.folder import create
from serverdyno.fleet.membership import fleet_at
from serverdyno.fleet.up import start_scheduler
from serverdyno.plan.model import GeneratorPlan
from serverdyno.servers.proof import free_port
from support.dyno_process import DYNO, PATIENCE_S
from support.fleet_level import carried, level
from support.fleet_nodes import end_scheduler, ended
from support.reference_servers import start_http

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sinfo")
absent = [name for name in PROGRAMS if shutil.which(name) is None]
pytestmark = [
    pytest.mark.skipif(bool(absent), reason=f"Slurm is not installed: {', '.join(absent)}"),
    pytest.mark.skipif(os.geteuid() != 0, reason="a private slurmd runs as root"),
]
NODES = ("0", "1", "2")
MUNGE = {
    "key-file": "key",
    "socket": "munge",
    "pid-file": "munge.pid",
    "log-file": "munge.log",
    "seed-file": "seed",
}
CONFIGURATION = """
ClusterName=dyno
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={daemon_port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={at}/munge
StateSaveLocation={at}/state
SlurmdSpoolDir={at}/spool
SlurmctldPidFile={at}/slurmctld.pid
SlurmdPidFile={at}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
MpiDefault=none
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes={host} Default=YES State=UP
"""


@pytest.fixture(autouse=True)
def slurm(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run a private Slurm with one machine that takes one task per node, until the test ends."""
    with tempfile.TemporaryDirectory(prefix="slurm-") as name, ExitStack() as stack:
        at, host = Path(name), socket.gethostname().partition(".")[0]
        at.chmod(0o755)  # munge checks that its socket can be reached
        (at / "state").mkdir()
        (at / "key").write_bytes(secrets.token_bytes(1024))
        (at / "key").chmod(0o400)
        ports = {"controller_port": free_port(), "daemon_port": free_port()}
        (at / "slurm.conf").write_text(CONFIGURATION.format(at=at, host=host, cpus=len(NODES), **ports))
        monkeypatch.setenv("SLURM_CONF", str(at / "slurm.conf"))
        places = [f"--{key}={at}/{file}" for key, file in MUNGE.items()]
        begun(stack, at, ["munged", "--foreground", "--force", *places])
        begun(stack, at, ["slurmctld", "-D"])
        begun(stack, at, ["slurmd", "-D", "-N", host])
        until = time.monotonic() + PATIENCE_S
        while told(["sinfo", "--noheader", "--format=%T"]).strip() != "idle":
            assert time.monotonic() < until, "\n".join(log.read_text() for log in at.glob("*.out"))
            time.sleep(0.2)
        yield


def begun(stack: ExitStack, at: Path, command: Sequence[str]) -> None:
    with (at / f"{command[0]}.out").open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, text=True)
    stack.callback(ended, process)


def told(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    return done.stdout


def test_nodes_that_slurm_starts_make_the_load_and_their_job_ends_with_the_fleet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = create(tmp_path / "lab", f"127.0.0.1:{free_port()}", list(NODES), days=1)
    server = start_http()
    with ExitStack() as stack:
        stack.callback(server.stop)
        stack.callback(end_scheduler, folder)
        start_scheduler(folder)
        node = f"exec {' '.join(DYNO)} node {folder.path}/nodes/$SLURM_PROCID"
        job = subprocess.Popen(["srun", f"-n{len(NODES)}", "sh", "-c", node], stderr=subprocess.DEVNULL)
        stack.callback(job.kill)
        target = http_target(f"http://127.0.0.1:{server.port}/")
        secret: dict[str, str | None] = {"consent_token": None, "password": None}
        monkeypatch.setattr("serverdyno.fleet.membership.PATIENCE_S", PATIENCE_S)
        with fleet_at(folder.path, GeneratorPlan(), target, secret) as nodes:
            before = server.requests
            result = carried(nodes, level(target, length_s=1.0))
            assert [each.node for each in nodes.figures] == [f"node {name}" for name in NODES]
            assert server.requests - before == result["operations_total"] > 0
        down = subprocess.run(
            [*DYNO, "fleet", "down", str(folder.path)], capture_output=True, timeout=PATIENCE_S, check=False
        )
        assert down.returncode == 0, down.stderr
        assert job.wait(PATIENCE_S) == 0
        assert told(["squeue", "--noheader"]) == ""
