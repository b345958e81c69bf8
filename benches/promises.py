"""How long a user waits for the tool itself: its help, and the report of a large experiment."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benches.ratios import Bound
from serverdyno import suites
from serverdyno.fleet import local
from serverdyno.fleet.consent import open_target
from serverdyno.fleet.load_setup import LoadSetup
from serverdyno.plan.load import parse_plan
from serverdyno.plan.model import GeneratorPlan, Mix, RunKey, Suite
from serverdyno.probes.host import host_facts
from serverdyno.probes.window import UNKNOWN
from serverdyno.protocols.http import HTTP
from serverdyno.runner.create import create_experiment
from serverdyno.runner.record import HostFigures, mix_record
from serverdyno.servers.registry import settings_types
from serverdyno.servers.running import running
from serverdyno.store.records import MixRecord, SecondRow

HELP_REPETITIONS, REPORT_REPETITIONS = 20, 3
REPETITIONS = 8  # of 4 servers and 16 mixes: 512 mixes
REAL_MIX_S = 1.0
NOISE = 0.02
PLAN = """\
name = "five-hundred-mixes"
title = "A large experiment, for the time that its report takes"
suite = "webbench-2.0-static"
repetitions = {repetitions}

[[servers]]
server = "apache"

[[servers]]
server = "nginx"

[[servers]]
server = "lighttpd"

[[servers]]
server = "reference"
"""


@dataclass(frozen=True, slots=True)
class Waiting:
    """How long one command took, again and again, from start to exit. `limit` of the median."""

    name: str
    command: str
    seconds: tuple[float, ...]
    limit: Bound


def help_texts() -> Iterator[Waiting]:
    """`--help` of the module, and of the `dyno` script where there is one. One run that does not count goes before."""
    commands = {"help-module": [sys.executable, "-m", "serverdyno", "--help"]}
    script = Path(sys.executable).with_name("dyno")
    if script.exists():
        commands["help-script"] = [str(script), "--help"]
    for name, command in commands.items():
        yield Waiting(name, _words(command), _timed(command, HELP_REPETITIONS), Bound(0.3, at_least=False))


def report(folder: Path, repetitions: int = REPETITIONS, times: int = REPORT_REPETITIONS) -> Waiting:
    """The report of an experiment of some five hundred mixes, which is written to `folder` first. Raises DynoError.

    `times`: how often it is made.
    """
    mixes = write_experiment(folder, repetitions)
    command = [sys.executable, "-m", "serverdyno", "report", str(folder)]
    return Waiting(
        f"report-of-{mixes}-mixes",
        "python -m serverdyno report EXPERIMENT",
        _timed(command, times),
        Bound(5, at_least=False),
    )


def _words(command: Sequence[str]) -> str:
    return " ".join([Path(command[0]).name, *command[1:]])


def _timed(command: Sequence[str], repetitions: int) -> tuple[float, ...]:
    return tuple(_seconds(command) for _ in range(repetitions + 1))[1:]


def _seconds(command: Sequence[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def write_experiment(folder: Path, repetitions: int) -> int:
    """Writes an experiment through the store, and gives its number of mixes.

    Its records are as large as real ones: one real mix of 120 clients at full speed, with other counts each time.
    Its figures mean nothing.
    """
    text = PLAN.format(repetitions=repetitions)
    plan = parse_plan(text, "the plan of this bench", settings_types())
    with create_experiment(folder, text, plan, suites.load(plan.suite)) as experiment:
        experiment.write_host(host_facts())
        head = experiment.head
        real = _real_mix(head.suite, head.order[0], head.mixes[-1])
        random = np.random.default_rng(1)
        for key in head.order:
            for mix in head.mixes:
                experiment.write_mix(_like(real, key, mix, float(random.normal(1, NOISE))))
        return len(head.order) * len(head.mixes)


def _real_mix(suite: Suite, key: RunKey, mix: Mix) -> MixRecord:
    short = replace(mix, length_s=REAL_MIX_S, ramp_up_s=0.0, ramp_down_s=0.0, delay_s=0.0)
    with running("reference", {}) as server:
        target = open_target(HTTP, server.access(), suite.settings(HTTP))
        setup = LoadSetup(suite, target, GeneratorPlan(), (), None)
        result = local.run_mix(short, setup, seed=1, on_tick=lambda *_: None)
    return mix_record(key, mix, result, HostFigures(UNKNOWN, server_rss_bytes=None))


def _like(real: MixRecord, key: RunKey, mix: Mix, scale: float) -> MixRecord:
    """The real record in the place of another mix; one row a second of its full length."""
    each_second = [
        SecondRow(second, int(real.operations * scale), real.bytes_in, 0)
        for second in range(int(mix.length_s))
    ]
    return replace(
        real,
        run=key.number,
        configuration=key.configuration,
        repetition=key.repetition,
        mix=mix.index,
        name=mix.name,
        clients=mix.clients,
        clients_participating=mix.clients,
        length_s=mix.length_s,
        ramp_up_s=mix.ramp_up_s,
        ramp_down_s=mix.ramp_down_s,
        window_s=mix.window_s * scale,  # another rate from the same counts
        by_client=real.by_client[: mix.clients],
        by_second=each_second,
    )
