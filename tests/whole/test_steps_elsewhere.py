"""Levels that end when their work is done, against a remote server: consent, a bounded rate, a kill and a resume."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from serverdyno.store.experiment import Experiment
from support.consenting import ADDRESS, PATIENCE_S, TOKEN, namespace
from support.dyno_process import Home, wait_until
from support.file_server import needs_root
from support.suites_of_steps import bonnie_suite, steps_suite

__all__ = ["namespace"]
pytestmark = needs_root
PORT = 2049
URL = f"nfs://{ADDRESS}:{PORT}/volume1?mountport={PORT}"
RATE = 200
PLAN = f"""
name = "p"
suites = ["small.toml", "steps.toml"]
repetitions = 1
[[servers]]
server = "external"
url = "{URL}"
bounds = {{ max_clients = 3, max_rate_per_s = {RATE}, max_length_s = 60 }}
"""
STEPS = """
[trees.t]
files = [{ name = "a", count = 200, bytes = 100 }]
[[steps]]
do = "make-tree"
tree = "t"
[[steps]]
do = "remove-tree"
tree = "t"
"""


def inside(namespace: str, *arguments: str | Path) -> list[str]:
    program = [sys.executable, "-m", "serverdyno", *map(str, arguments)]
    return ["ip", "netns", "exec", namespace, *program]


@contextmanager
def serving(namespace: str, home: Home) -> Iterator[None]:
    """Run a server whose address looks like another machine's, and which consents to this user's load."""
    config = home.temporary / "config" / "serverdyno"
    config.mkdir(parents=True, exist_ok=True)
    (config / "token").write_text(f"{TOKEN}\n")
    command = inside(namespace, "reference", "nfs", "--bind", ADDRESS, "--port", f"{PORT}")
    environment = home.environment | {"DYNO_CONSENT_TOKEN": TOKEN}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None and json.loads(server.stdout.readline())["port"] == PORT
        try:
            yield
        finally:
            server.terminate()


def done(namespace: str, home: Home, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        inside(namespace, *arguments),
        env=home.environment,
        cwd=home.temporary,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_bonnie_needs_bounds_elsewhere_and_keeps_them(namespace: str, home: Home) -> None:
    options = ("bonnie", "-d", URL, "-s", "1", "--seeks", "60", "--json")
    with serving(namespace, home):
        refused = done(namespace, home, *options)
        assert refused.returncode != 0 and "--max-rate" in refused.stderr, refused.stderr
        kept = done(namespace, home, *options, "--max-rate", f"{RATE}")
    assert kept.returncode == 0, kept.stderr
    phases = {phase["phase"]: phase for phase in json.loads(kept.stdout)["phases"]}
    assert sum(sum(phase["requests"].values()) for phase in phases.values()) >= 50
    for phase in phases.values():
        # The first requests may have waited for their turns before.
        assert (sum(phase["requests"].values()) - 8) / phase["elapsed_s"] <= RATE, phase


def test_without_consent_nothing_is_asked_of_it(namespace: str, home: Home) -> None:
    with serving(namespace, home):
        (home.temporary / "config" / "serverdyno" / "token").write_text("another-token-of-somebody\n")
        refused = done(namespace, home, "bonnie", "-d", URL, "-s", "1", "--max-rate", f"{RATE}")
    assert refused.returncode != 0 and "consent" in refused.stderr, refused.stderr


def test_a_run_that_is_killed_between_two_suites_goes_on_with_the_second(
    namespace: str, home: Home, tmp_path: Path
) -> None:
    (tmp_path / "small.toml").write_text(bonnie_suite("small", size_mib=1, seeks=20, seekers=2))
    (tmp_path / "steps.toml").write_text(steps_suite("steps", STEPS))
    plan, folder = tmp_path / "plan.toml", tmp_path / "e"
    plan.write_text(PLAN)
    with serving(namespace, home):
        command = inside(namespace, "run", plan, "--into", folder)
        with subprocess.Popen(command, env=home.environment, stderr=subprocess.DEVNULL) as tool:
            wait_until(lambda: bool(list(folder.glob("runs/*/level-06.parquet"))), "the first suite is kept")
            tool.kill()
        kept = {path: path.read_bytes() for path in folder.glob("runs/*/level-*.parquet")}
        assert len(kept) == 6
        again = done(namespace, home, "resume", folder)
    assert again.returncode == 0, again.stderr
    assert all(path.read_bytes() == content for path, content in kept.items())
    with Experiment.open(folder) as opened:
        made, removed = opened.levels()[6:]
    assert (made.step, removed.step) == ("make t", "rm -r t")
    # One directory and 200 files, each of which is opened, written and closed.
    assert made.operations == 601 and made.operations / made.window_s <= RATE * 1.01
    assert made.response_time_hdr and (folder / "report").is_dir()
