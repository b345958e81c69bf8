"""The first check of a user's web server ends in time, with a message and in bounded memory, whatever it sends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from support.dyno_process import Home, wait_for_line
from support.hostile_web import ANSWERED, KINDS, LARGE_BODY, NOT_HTTP, hostile_servers

PATIENCE_S = 120.0
LOOK_S = 2.0
# Limit of the address space, which includes shared libraries and the stacks of threads.
MOST_MEMORY_BYTES = 4 << 30

# This runs in a process with bounded memory, and checks all servers of one experiment.
ASK = f"""
import json, resource, sys, tempfile
from pathlib import Path
resource.setrlimit(resource.RLIMIT_AS, ({MOST_MEMORY_BYTES}, {MOST_MEMORY_BYTES}))
from serverdyno.errors import DynoError
from serverdyno.plan.model import Plan, ServerPlan, Suite
from serverdyno.run.create import create_experiment
from serverdyno.run.ask import ask_users_servers
from serverdyno.plan.protocols import look
from serverdyno.store.experiment import Experiment

look.LOOK_S = {LOOK_S}
class Nobody:
    def stage(self, text):
        pass

urls = json.loads(sys.argv[1])
servers = [ServerPlan(server="external", name=name, url=url) for name, url in urls.items()]
suite = Suite(
    name="tiny", title="Tiny", source="a test", workload="url", clients=[1], length_s=0.5, timeout_s={LOOK_S}
)
plan = Plan(name="tiny", title="Tiny", suite="tiny", repetitions=1, servers=servers)
folder = Path(tempfile.mkdtemp()) / "e"
with create_experiment(folder, "# made by a test\\n", plan, [suite]) as experiment:
    try:
        ask_users_servers(experiment.head, experiment.head.configurations, Nobody())
    except DynoError as error:
        print(error)
"""


def test_every_kind_of_hostile_web_server_is_told_in_words_in_time_and_in_bounded_memory(home: Home) -> None:
    assert len(KINDS) >= 40
    with hostile_servers() as urls:
        done = subprocess.run(
            [sys.executable, "-c", ASK, json.dumps(urls)],
            env=home.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, "")
    told = {}
    for line in done.stdout.splitlines():
        name = line.strip().partition(": ")[0]
        if name in KINDS:
            told[name] = line
    wrong = {
        name: told.get(name)
        for name, (_, words) in KINDS.items()
        if (name in told) != (words is not ANSWERED) or (words is not None and words not in told[name])
    }
    assert wrong == {}
    assert "file server" not in done.stdout


@pytest.mark.parametrize(
    ("kind", "words"), [("not-http-ssh", NOT_HTTP), ("length-2-to-63", LARGE_BODY), ("closes", None)]
)
def test_the_check_before_load_says_what_is_wrong_with_the_answer(
    kind: str, words: str | None, home: Home
) -> None:
    with hostile_servers() as urls:
        done = home.here("load", urls[kind], "--clients", "1", "--length", "2s")
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr and "file server" not in done.stderr
    assert (words or KINDS[kind][1] or "") in done.stderr and "nothing answers" not in done.stderr
    assert "hint: " in done.stderr


def test_what_only_shows_under_load_is_not_told_as_the_fault_of_a_file_server(home: Home) -> None:
    with hostile_servers() as urls:
        done = home.here("load", urls["status-500"], "--clients", "1", "--length", "2s")
    assert done.returncode == 1, done.stderr
    assert "file server" not in done.stderr


# The check may take so long that only a signal ends it before the test gives up.
PATIENT_DYNO = """
import sys
from serverdyno import cli
from serverdyno.plan import quick

quick.USUAL = {**quick.USUAL, "timeout": "600s"}
sys.argv = ["dyno", *sys.argv[1:]]
cli.main()
"""


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        ("silent", signal.SIGINT),
        ("silent", signal.SIGTERM),
        ("silent", signal.SIGHUP),
        ("silent", signal.SIGQUIT),
        ("drips-head", signal.SIGINT),
    ],
)
def test_the_first_signal_ends_a_look(kind: str, number: signal.Signals, home: Home) -> None:
    with (
        hostile_servers() as urls,
        subprocess.Popen(
            [sys.executable, "-c", PATIENT_DYNO, "load", urls[kind], "--clients", "1", "--length", "2s"],
            env=home.environment,
            cwd=home.temporary,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as dyno,
    ):
        try:
            wait_for_line(dyno, "checking that your servers answer")
            dyno.send_signal(number)
            _, told = dyno.communicate(timeout=PATIENCE_S)
        finally:
            dyno.kill()
    assert dyno.returncode == 128 + number, told
    assert "interrupted" in told and "Traceback" not in told
