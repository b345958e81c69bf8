"""`dyno run PLAN --clients`: other numbers of clients than the suite's, and how an experiment discloses them."""

from __future__ import annotations

from pathlib import Path

import pytest

from serverdyno.errors import PlanError, UserError
from serverdyno.plan import suites
from serverdyno.plan.load import with_clients
from serverdyno.store.experiment import Experiment
from support.dyno_process import Home

PLAN = 'name = "other"\nsuite = "quick-static"\nscale = 0.05\nrepetitions = 1\n[[servers]]\nserver = "reference"\n'


@pytest.mark.usefixtures("short_windows")
def test_a_plan_runs_with_other_clients_and_its_report_says_so(home: Home, tmp_path: Path) -> None:
    plan, folder = tmp_path / "plan.toml", tmp_path / "e"
    plan.write_text(PLAN)
    done = home.here("run", plan, "--clients", "1,2", "--into", folder)
    assert done.returncode == 0, done.stderr
    opened = Experiment.open(folder)
    assert [record.clients for record in opened.levels()] == [1, 2]
    assert (opened.head.suite.name, opened.head.plan.suite) == ("quick-static-other-clients",) * 2
    page = (folder / "report" / "report.html").read_text()
    assert "with the clients of --clients (quick-static-other-clients)" in page
    assert "clients: choice: --clients, instead of 1, 8, 24, 48, 80, 120 (choice: ours)" in page


def test_other_clients_replace_the_clients_alone_and_the_suite_says_what_was_published() -> None:
    before = suites.load("webbench-4.1-static")
    after = with_clients(before, "1,4,8")
    assert after.clients == [1, 4, 8]
    changed = {"name", "title", "certainty", "clients"}
    assert before.model_dump(exclude=changed) == after.model_dump(exclude=changed)
    assert before.certainty["clients"].startswith("seen: ")
    assert f"60 ({before.certainty['clients']})" in after.certainty["clients"]
    assert with_clients(after, "2").name == after.name == "webbench-4.1-static-other-clients"


def test_steps_of_threads_above_the_last_clients_are_left_out() -> None:
    before = suites.load("webbench-4.1-static-120-10t-15t")
    assert before.threads_from and with_clients(before, "1").threads_from == []
    assert with_clients(before, "200").threads_from == before.threads_from


@pytest.mark.parametrize(
    ("suite", "option", "words"),
    [
        ("quick-static", "1,x", "must be a whole number"),
        ("quick-static", "", "must be a whole number"),
        ("quick-static", "4,2", "2 clients after 4: the load must grow"),
        ("quick-static", "0", "must be at least 1"),
        ("quick-open", "1,2", "with a rate, must be a single number"),
    ],
)
def test_clients_that_a_suite_can_not_have_are_refused(suite: str, option: str, words: str) -> None:
    with pytest.raises((UserError, PlanError), match=words):
        with_clients(suites.load(suite), option)
