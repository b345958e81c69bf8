"""The experiment as a table of stages. `carry_out` begins one or continues it: it does what is not done yet."""

from __future__ import annotations

from serverdyno.errors import DynoError
from serverdyno.fleet import local
from serverdyno.fleet.consent import open_target
from serverdyno.fleet.placement import place
from serverdyno.plan.model import Mix, RunKey
from serverdyno.probes.host import host_facts
from serverdyno.runner.calibrate import Calibration, ceiling_operations_s
from serverdyno.runner.progress import Progress
from serverdyno.runner.run import Run
from serverdyno.servers.documents import document_root
from serverdyno.servers.running import running
from serverdyno.store.experiment import Experiment


def carry_out(experiment: Experiment, progress: Progress) -> bool:
    """Runs every mix that has no record yet, in the experiment's order. True if every run is whole.

    A run that fails is noted and the others go on. Every finished mix is kept at once, so that an interrupted
    experiment continues where it was.
    """
    for stage in STAGES:
        stage(experiment, progress)
    return not missing(experiment) and not any(
        note.get("state") == "failed" for note in experiment.run_notes().values()
    )


def missing(experiment: Experiment) -> dict[RunKey, list[Mix]]:
    """The mixes that have no record, by run, in order."""
    finished = experiment.finished()
    rest = {
        run: [mix for mix in experiment.head.mixes if (run.number, mix.index) not in finished]
        for run in experiment.head.order
    }
    return {run: mixes for run, mixes in rest.items() if mixes}


def disclose(experiment: Experiment, progress: Progress) -> None:
    """Keeps what is known of this machine."""
    progress.stage("looking at this machine")
    experiment.write_host(host_facts(document_root()))


def calibrate(experiment: Experiment, progress: Progress) -> None:
    """Measures the generator's ceiling, unless an earlier part of the experiment has."""
    head = experiment.head
    if experiment.ceilings() or not missing(experiment):
        return
    placement = place(head.plan.generator, head.configurations[0])
    calibration = Calibration(
        head.suite, head.mixes, head.plan.generator, placement, _document_bytes(experiment)
    )
    experiment.write_ceilings(calibration.measure(progress))


def _document_bytes(experiment: Experiment) -> int | None:
    """The size of the one document of a `url` workload, for the reference server to serve as much."""
    head, configuration = experiment.head, experiment.head.configurations[0]
    if head.suite.workload != "url":
        return None
    with running(configuration.server, configuration.settings, url=configuration.url) as server:
        target = open_target(server.url, configuration.bounds, head.mixes)
        task = local.Task(head.suite, target, head.plan.generator, (), configuration.bounds)
        result = local.preflight(task, head.mixes[0])
        return result["bytes_body"] // max(1, result["operations"])


def run_all(experiment: Experiment, progress: Progress) -> None:
    """Carries out every run that isn't whole."""
    configurations = {configuration.name: configuration for configuration in experiment.head.configurations}
    ceiling = ceiling_operations_s(experiment.ceilings())
    rest = missing(experiment)
    left_s = sum(mix.length_s for mixes in rest.values() for mix in mixes)
    for key, mixes in rest.items():
        run = Run(experiment, key, configurations[key.configuration], mixes, ceiling, progress, left_s)
        left_s -= sum(mix.length_s for mix in mixes)
        try:
            run.carry_out()
        except DynoError as error:
            experiment.write_run_note(key, {"state": "failed", "reason": str(error), "hint": error.hint})
            progress.run_failed(key, str(error))


STAGES = (disclose, calibrate, run_all)
