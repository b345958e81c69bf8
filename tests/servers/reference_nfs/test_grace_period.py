"""A server in its grace period after a restart: clients wait, and messages name it as the reason for a timeout."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from benches.levels import files_level, nfs_target

from serverdyno import _native
from serverdyno.fleet.load_setup import LoadSetup
from serverdyno.plan import suites
from serverdyno.plan.model import Configuration, GeneratorPlan
from serverdyno.run.grace import grace_told
from serverdyno.servers import waiting
from support.experiments import Listener
from support.file_server import PATIENCE_S
from support.jobs import carried_out_alone
from support.reference_servers import start_nfs

BONNIE = {
    "clients": 1,
    "file": "Bonnie",
    "bytes": 1 << 20,
    "chunk_bytes": 16384,
    "stdio_bytes": 16384,
    "seeks": 1,
    "check": True,
    "seekers": 1,
    "seed": 1,
}


@pytest.fixture
def in_grace() -> Iterator[str]:
    """Yield the URL of a server that has restarted, and waits for a client that does not return."""
    server = start_nfs()
    try:
        url = f"nfs://127.0.0.1:{server.port}/volume1?vers=4.1&nfsport={server.port}"
        task = {"bonnie": BONNIE | {"file": "lost"}}
        times = {"most_ns": 10**11, "timeout_ns": 10**11}
        job = {"task": task, **times, "max_rate_per_s": None, "nonce": 1, "is_led": True}
        lost = _native.Job.start(nfs_target(url), json.dumps(job))
        assert lost.wait(PATIENCE_S)["gate"] is not None, "it has opened its file"
        lost.stop(at_once=True)
        assert lost.wait_for_end(PATIENCE_S)
        server.restart()
        yield url
    finally:
        server.stop()


def test_a_grace_period_is_the_reason_of_a_timeout_and_is_waited_for_in_steps(in_grace: str) -> None:
    to = nfs_target(in_grace)
    shape = {"clients": 1, "threads": 1, "length_s": 0.5, "timeout_s": 0.5}
    load = files_level(to, {"workload": "diskmix"}, None, **shape).start()
    assert load.wait(PATIENCE_S)
    [error] = load.result()["errors"]
    assert "NFS4ERR_GRACE" in error["example"] and "Ganesha: Grace_Period" in error["advice"], error

    configuration, listener = Configuration("theirs", "external", {}, (), to.url, None), Listener()
    setup = LoadSetup(suites.load("quick-files"), to, GeneratorPlan(), (), None)
    with waiting.ended_by(grace_told(configuration, setup, listener)):
        carried_out_alone(to, {"bonnie": BONNIE}, PATIENCE_S, timeout_s=6.0)
    [notice] = listener.notices
    assert "theirs: the server has restarted and is in its grace period (NFS4ERR_GRACE)" in notice
