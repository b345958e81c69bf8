"""Carries an experiment of tasks out: for each run a server is started, put to each task, and stopped.

What is done already is not done again, so that an interrupted experiment continues where it was. Not for: what a step
asks of files (the data plane), nor what is said of it (`report/`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from serverdyno import __version__
from serverdyno.errors import DynoError, UserError
from serverdyno.fleet.consent import open_section
from serverdyno.fleet.placement import place
from serverdyno.plan import protocols
from serverdyno.plan.expand import configurations_of
from serverdyno.plan.model import Configuration, GeneratorPlan, RunKey
from serverdyno.plan.order import order
from serverdyno.plan.protocols.base import Protocol
from serverdyno.plan.protocols.files import block_bytes
from serverdyno.probes.durability import FsyncCounter, remove_abandoned
from serverdyno.run.ask import check_installed
from serverdyno.run.disclose import disclose_host, disclose_server
from serverdyno.scenarios import carry_out as scenarios
from serverdyno.scenarios import model
from serverdyno.scenarios.carry_out import StepResult
from serverdyno.scenarios.model import Scenario
from serverdyno.servers.base import RunningServer
from serverdyno.servers.registry import settings_types
from serverdyno.servers.running import running
from serverdyno.tasks import bonnie
from serverdyno.tasks.experiment import Failure, StepRecord, TaskExperiment, TaskHead, TaskRecord
from serverdyno.tasks.load import LoadedTasks

if TYPE_CHECKING:
    from serverdyno import _native

MOST_STEP_S = 24 * 3600.0
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Place:
    """A server that runs, as tasks need it."""

    server: RunningServer
    target: _native.Target
    url: str
    counter: FsyncCounter


def head_of(loaded: LoadedTasks) -> TaskHead:
    """Return the head of a new experiment. CPUs that the plan leaves open are chosen here. Raises UserError."""
    plan = loaded.plan
    found = [each for server in plan.servers for each in configurations_of(server, settings_types())]
    placement = place(GeneratorPlan(), {cpu for named in found for cpu in named.cpus})
    configurations = [
        # The user's own server runs where the user has put it.
        each if each.url is not None else replace(each, cpus=each.cpus or placement.server)
        for each in found
    ]
    return TaskHead(
        tool_version=__version__,
        created=datetime.now(UTC),
        plan=plan,
        scenarios={
            name: model.scaled(scenario, plan.scale)
            for name, scenario in loaded.tasks.items()
            if scenario is not None
        },
        cpus=list(placement.generator),
        configurations=configurations,
        tasks=list(loaded.tasks),
        order=order(configurations, plan.repetitions, plan.order, plan.seed),
    )


def largest_bytes(head: TaskHead, task: str) -> int:
    """Return what stands on the server at most while a task goes on: all that it makes, as if nothing were removed."""
    scenario = head.scenarios.get(task)
    return head.plan.scaled_bonnie.all_bytes if scenario is None else model.written_bytes(scenario)


def carry_out(experiment: TaskExperiment, tell: Tell) -> bool:
    """Carry out every task that has no record yet, in the experiment's order. True if all have one in the end.

    A run that fails is noted and the others go on. Raises DynoError for what keeps all of them from running.
    """
    rest = experiment.missing()
    if rest:
        named = {run.configuration for run in rest}
        check_installed([each for each in experiment.configurations if each.name in named])
        if experiment.head.plan.drop_caches and os.geteuid() != 0:
            raise UserError(
                "drop_caches: only root may drop the page cache", hint="Be root, or leave it out."
            )
        disclose_host(experiment)
        remove_abandoned()
    for number, (run, tasks) in enumerate(rest.items(), start=1):
        tell(f"run {number} of {len(rest)}: {run.configuration}, repetition {run.repetition}")
        _run(experiment, run, tasks, tell)
    return not experiment.missing()


def _run(experiment: TaskExperiment, run: RunKey, tasks: Sequence[str], tell: Tell) -> None:
    """One run; what keeps it from its end is noted and told."""
    under_way = None
    try:
        with _ready(experiment, run) as where:
            for under_way in tasks:
                record = _task(experiment.head, under_way, where, run)
                experiment.write_task(run, record)
                took_s = sum(step.elapsed_s for step in record.steps)
                tell(f"  {under_way}: {len(record.steps)} steps, {took_s:.1f} s")
    except DynoError as error:
        experiment.write_failure(run, Failure(task=under_way, reason=f"{error}", hint=error.hint))
        tell(f"FAILED {run.folder}{f', {under_way}' if under_way else ''}: {error}")
        if error.hint:
            tell(f"hint: {error.hint}")


@contextmanager
def _ready(experiment: TaskExperiment, run: RunKey) -> Iterator[_Place]:
    """The server of a run, disclosed and open to load. Raises DynoError; it is stopped whatever happens."""
    configuration = next(each for each in experiment.configurations if each.name == run.configuration)
    with running(
        configuration.server, configuration.settings, cpus=configuration.cpus, url=configuration.url
    ) as server:
        access = server.access()
        protocol = _protocol(configuration)
        section = protocol.target_section(access, protocol.settings_type())
        target = open_section(protocol, access, section)
        if not target.loopback:
            raise UserError(
                f"{access.url} is not on this machine, and nothing bounds the rate of a task",
                hint="Measure it by a plan with bounds and the suite quick-streams, quick-metadata or quick-files.",
            )
        server.ask(target)
        disclose_server(experiment, configuration.name, server)
        with FsyncCounter(server.pids()) as counter:
            yield _Place(server, target, access.url, counter)


def _protocol(configuration: Configuration) -> Protocol[Any]:
    assert configuration.protocol is not None, "checked with the plan"
    return protocols.of(configuration.protocol)


def _task(head: TaskHead, name: str, where: _Place, run: RunKey) -> TaskRecord:
    """Raises DynoError."""
    cpu_before_s, syncs_before = where.server.cpu_s(), where.counter.counts()
    started_unix_s = time.time()
    # Each repetition has other contents and other places; all configurations have the same.
    seed = (head.plan.seed + run.repetition - 1) % (1 << 32)
    with _on(head.cpus):
        scenario = head.scenarios.get(name)
        steps = _bonnie(head, where, seed) if scenario is None else _scenario(head, scenario, where, seed)
    where.server.check()
    cpu_s, syncs = where.server.cpu_s(), where.counter.counts()
    known = syncs is not None and syncs_before is not None
    return TaskRecord(
        task=name,
        started_unix_s=started_unix_s,
        steps=steps,
        server_cpu_s=None if cpu_s is None or cpu_before_s is None else max(0.0, cpu_s - cpu_before_s),
        syncs={call: count - (syncs_before or {}).get(call, 0) for call, count in (syncs or {}).items()}
        if known
        else None,
        syncs_unknown_because=where.counter.reason,
    )


def _bonnie(head: TaskHead, where: _Place, seed: int) -> list[StepRecord]:
    phases = bonnie.carry_out(where.target, where.url, head.plan.scaled_bonnie, seed, MOST_STEP_S)
    return [StepRecord.of(phase, step=phase["phase"]) for phase in phases]


def _scenario(head: TaskHead, scenario: Scenario, where: _Place, seed: int) -> list[StepRecord]:
    results: list[StepResult] = []
    options = scenarios.Options(
        block_bytes=block_bytes(where.url),
        drop_caches=head.plan.drop_caches,
        seed=seed,
        most_s=MOST_STEP_S,
    )
    scenarios.carry_out(scenario, where.target, options, results.append)
    return [
        StepRecord.of(
            one, step=result.name, state=one["phase"] or _state(number, result.passes), figure=step.figure
        )
        for step, result in zip(scenario.steps, results, strict=True)
        for number, one in enumerate(result.passes)
    ]


def _state(number: int, passes: Sequence[object]) -> str:
    """The first of several passes is cold; of a step with one, it is so in any case."""
    return "warm" if number else "cold" if len(passes) > 1 else ""


@contextmanager
def _on(cpus: Collection[int]) -> Iterator[None]:
    """The client's threads on these CPUs: a thread inherits those of the one that starts it."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
