"""The bench of a local directory: our side, fio's words, and the C loop, each for a moment."""

from __future__ import annotations

import json
import shutil

import pytest
from benches import local
from benches.local import CASES, LOOP, OURS, LocalCase
from benches.rounds import BenchError, Effort, cpus


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_side_of_each_case_does_its_work(case: LocalCase) -> None:
    needed = "gcc" if LOOP in case.peers else "fio"
    if shutil.which(needed) is None:
        pytest.skip(f"{needed} is not installed")
    runs = list(local.carry_out(case, cpus(), Effort(rounds=1, seconds=1.0, patience_s=0, attempts=1)))
    assert {run.tool for run in runs} >= {OURS, *case.peers}
    for run in runs:
        assert run.errors == 0 and run.requests > 0 and run.requests_s > 0
        assert 0 < run.generator_cpu_s <= 1.1 * run.measured_s


def test_what_fio_says_of_its_job_is_read_and_else_is_refused() -> None:
    job = {"job_runtime": 2000, "usr_cpu": 10.0, "sys_cpu": 40.0, "error": 0, "read": {"total_ios": 500}}
    account = local.fio_account("fio: a warning\n" + json.dumps({"jobs": [job]}), "read")
    assert (account.requests, account.window_s) == (500, 2.0)
    assert account.cpu_s == pytest.approx(1.0)
    for text in ("", "{}", "fio: engine not found"):
        with pytest.raises(BenchError, match="no figures"):
            local.fio_account(text, "read")
    with pytest.raises(BenchError, match="failed"):
        local.loop_account("unlink: No such file or directory")
