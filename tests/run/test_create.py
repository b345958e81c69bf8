"""Experiments without a folder of the user get one of their own, even if several begin in the same second."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from serverdyno.plan.model import Plan, ServerPlan, Suite
from serverdyno.run.create import create_experiment
from serverdyno.store.experiment import Experiment


def test_experiments_that_begin_together_have_folders_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    suite = Suite(name="load", title="", source="a test", workload="url", clients=[1], length_s=0.5)
    servers = [ServerPlan(server="external", url="http://127.0.0.1:9/")]
    plan = Plan(name="load", title="", suite="load", servers=servers)

    def created(number: int) -> Experiment:
        return create_experiment(None, f"# {number}\n", plan, [suite])

    with ThreadPoolExecutor(8) as pool:
        experiments = list(pool.map(created, range(16)))
    folders = {experiment.folder for experiment in experiments}
    assert len(folders) == len(experiments) == len(list(Path("experiments").iterdir()))
    for experiment in experiments:
        with experiment:
            experiment.discard()
    assert [*Path("experiments").glob("*")] == []
