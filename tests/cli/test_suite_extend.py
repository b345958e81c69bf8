"""`dyno suite extend`: the next suite for servers whose peak was not passed, and when there is no need for one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from serverdyno import suites
from serverdyno.errors import PlanError, UserError
from serverdyno.plan.expand import mixes
from serverdyno.plan.extend import Growth, as_toml, extended, next_clients
from serverdyno.plan.model import Suite
from serverdyno.protocols.documents import DOCUMENTS
from serverdyno.report.source import Source
from serverdyno.store.experiment import Experiment
from support.dyno_process import Home
from support.synthetic_experiment import Shape, experiment

CLIENTS = (1, 8, 16, 24, 32)
RISING = Shape(peak_s=9000, knee=48)
PAST_ITS_PEAK = Shape(peak_s=9000, knee=12)
PLAN = 'name = "larger"\ntitle = "Larger"\nsuite = "quick-static"\n[[servers]]\nserver = "reference"\n'


def stored(folder: Path, source: Source) -> Path:
    """An experiment on the disk, of synthetic records."""
    with Experiment.create(folder, PLAN, source.head) as made:
        for record in source.records:
            made.write_mix(record)
    return folder


@pytest.mark.parametrize(
    ("clients", "more"),
    [
        ([1, 8, 16, 24, 32], [40, 48, 56, 64]),
        ([1, 4, 8, 12], [16, 20, 24]),
        ([1, 2, 4, 8], [16]),
        ([3, 9, 27], [81]),
        ([10], [20]),
        ([1, 8, 24, 48, 80, 120], [160, 200, 240]),
        ([5, 10], [15, 20]),
    ],
)
def test_the_last_step_or_factor_is_continued_until_twice_the_clients(
    clients: list[int], more: list[int]
) -> None:
    assert next_clients(clients) == more


def check_grown(name: str, growth: Growth) -> Suite:
    """Twice the load, everything else as it was, and a file that says the same."""
    before = suites.load(name)
    after = extended(before, growth, "of a test")
    assert suites.parse(as_toml(after, "A comment."), "a file") == after
    most_before, most_after = mixes(before)[-1], mixes(after)[-1]
    assert most_after.clients * most_after.threads >= 2 * most_before.clients * most_before.threads
    changed = {"name", "title", "description", "certainty", "clients", "threads", "threads_from"}
    assert before.model_dump(exclude=changed) == after.model_dump(exclude=changed)
    return after


@pytest.mark.parametrize("name", suites.names())
def test_every_shipped_suite_can_grow_by_clients_and_its_file_is_the_suite(name: str) -> None:
    before = suites.load(name)
    if before.open is not None:  # its clients are connections; what grows is the rate
        with pytest.raises(PlanError, match="one number in a suite with"):
            extended(before, Growth.CLIENTS, "of a test")
        return
    after = check_grown(name, Growth.CLIENTS)
    assert after.clients[: len(before.clients)] == before.clients
    assert (after.threads, after.threads_from) == (before.threads, before.threads_from)


@pytest.mark.parametrize("name", suites.names())
def test_every_suite_whose_clients_may_have_threads_grows_by_them_and_the_others_are_refused(
    name: str,
) -> None:
    if suites.load(name).work is DOCUMENTS or suites.load(name).workload == "streams":
        assert check_grown(name, Growth.THREADS).clients == suites.load(name).clients
    else:
        with pytest.raises(PlanError, match="one thread"):
            extended(suites.load(name), Growth.THREADS, "of a test")


def test_a_grown_suite_says_that_it_is_our_choice_and_what_was_published() -> None:
    after = extended(
        suites.load("webbench-4.1-static"), Growth.CLIENTS, "throughput of nginx still rose at 60 clients"
    )
    assert after.name == "webbench-4.1-static-to-120c"
    said = after.certainty["clients"]
    assert said.startswith(
        "choice: extended because throughput of nginx still rose at 60 clients; before that, seen: "
    )
    assert "Not a published suite" in after.description
    again = extended(after, Growth.CLIENTS, "it still rose")
    assert again.name == "webbench-4.1-static-to-240c"
    assert again.certainty["clients"] == "choice: extended because it still rose"


def test_steps_of_threads_grow_with_the_threads() -> None:
    after = extended(suites.load("webbench-4.1-static-120-10t-15t"), Growth.THREADS, "of a test")
    assert (after.threads, [step.threads for step in after.threads_from]) == (20, [30])


def test_a_suite_that_would_pass_the_limits_is_refused() -> None:
    base = suites.load("quick-static")
    with pytest.raises(UserError, match="1200 threads"):
        extended(base.model_copy(update={"threads": 600}), Growth.THREADS, "of a test")
    with pytest.raises(UserError, match="more mixes"):
        extended(base.model_copy(update={"clients": [999, 1000]}), Growth.CLIENTS, "of a test")
    with pytest.raises(PlanError, match="must be at most 100000"):
        extended(base.model_copy(update={"clients": [1, 60_000]}), Growth.CLIENTS, "of a test")
    with pytest.raises(PlanError, match="connections at once"):
        extended(base.model_copy(update={"clients": [1, 80_000]}), Growth.THREADS, "of a test")


def test_what_toml_can_not_say_is_refused_and_not_lost() -> None:
    suite = Suite.model_validate(suites.load("quick-static").model_dump() | {"leave_after_errors": None})
    with pytest.raises(UserError, match="leave_after_errors"):
        as_toml(suite, "A comment.")


def test_an_experiment_that_still_rose_gives_the_next_suite_which_runs(home: Home, tmp_path: Path) -> None:
    source = experiment({"nginx": RISING, "apache": PAST_ITS_PEAK}, clients=CLIENTS)
    folder, file = stored(tmp_path / "e", source), tmp_path / "larger.toml"
    done = home.here("suite", "extend", folder, "--into", file)
    assert done.returncode == 0, done.stderr
    assert "throughput of nginx still rose at 32 clients" in done.stdout
    suite = suites.parse(file.read_text(), "the file")
    assert suite.clients == [*CLIENTS, 40, 48, 56, 64]
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    checked = home.here("plan", "check", plan, "--suite", file, "--scale", "0.01")
    assert "1 problem" not in checked.stdout
    assert "runs of 9 mixes" in checked.stdout, checked.stdout + checked.stderr


def test_an_experiment_past_its_peak_gives_none_unless_asked_for_anyway(home: Home, tmp_path: Path) -> None:
    source = experiment({"nginx": PAST_ITS_PEAK}, clients=CLIENTS)
    folder, file = stored(tmp_path / "e", source), tmp_path / "larger.toml"
    done = home.here("suite", "extend", folder, "--into", file)
    assert done.returncode == 2
    assert "the load was enough: throughput of nginx no longer rose at 32 clients" in done.stderr
    assert not file.exists()
    assert home.here("suite", "extend", folder, "--into", file, "--anyway").returncode == 0
    assert "no throughput is known to rise" in file.read_text()


def test_a_rise_that_the_generator_may_have_set_the_end_of_is_no_reason(home: Home, tmp_path: Path) -> None:
    source = experiment({"nginx": replace(RISING, waiting=0.5)}, clients=CLIENTS)
    folder = stored(tmp_path / "e", source)
    done = home.here("suite", "extend", folder, "--into", tmp_path / "larger.toml")
    assert done.returncode == 2
    assert "the generator or the plan's bound limited it there" in done.stderr


def test_an_experiment_without_its_last_mix_can_not_say(home: Home, tmp_path: Path) -> None:
    source = experiment({"nginx": RISING}, clients=CLIENTS)
    unfinished = replace(source, records=[record for record in source.records if record.mix < len(CLIENTS)])
    done = home.here(
        "suite", "extend", stored(tmp_path / "e", unfinished), "--into", tmp_path / "larger.toml"
    )
    assert done.returncode == 2
    assert "nothing was measured at 32 clients for nginx" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["webbench-2.0-statik", "--into", "new.toml"], "did you mean webbench-2.0-static"),
        (["quick-static", "--into", "there.toml"], "can't write there.toml: File exists"),
        (["quick-static", "--into", "new.toml", "--by", "luck"], "expected clients or threads"),
        (["missing.toml", "--into", "new.toml"], "can't read missing.toml"),
        ([".", "--into", "new.toml"], ". is not an experiment"),
    ],
)
def test_the_users_mistake_is_said_and_nothing_is_written(
    home: Home, arguments: list[str], words: str
) -> None:
    (home.temporary / "there.toml").touch()
    done = home.here("suite", "extend", *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert not (home.temporary / "new.toml").exists()
    assert (home.temporary / "there.toml").read_text() == ""
