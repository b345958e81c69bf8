"""Runs the stages of an experiment. `carry_out` begins or continues an experiment: it runs the missing levels."""

from __future__ import annotations

from collections.abc import Collection

from serverdyno.errors import DynoError
from serverdyno.fleet.contract import FleetError
from serverdyno.plan.model import Level, RunKey
from serverdyno.probes.durability import remove_abandoned
from serverdyno.run.ask import ask_users_servers
from serverdyno.run.disclose import disclose_host
from serverdyno.run.peaks import settle_rates
from serverdyno.run.progress import Progress
from serverdyno.run.refusals import check_installed
from serverdyno.run.remarks import remarks, slow_preparations
from serverdyno.run.room import check_room
from serverdyno.run.run import NextRate, Run
from serverdyno.run.scenario import check_may_drop_caches
from serverdyno.run.site import HERE, Site, site_of
from serverdyno.run.time_left import lowest_bound, time_left
from serverdyno.store.experiment import Experiment
from serverdyno.store.head import ExperimentHead
from serverdyno.store.note import RunNote


def carry_out(experiment: Experiment, progress: Progress, next_rate: NextRate | None = None) -> bool:
    """Run every level without a record, in the experiment's order. Return True if every run is complete.

    A failed run is noted and the others continue. Every finished level is recorded at once, so that an
    interrupted experiment can be resumed. Raises DynoError if nothing can run. `next_rate` chooses the rates of a
    capacity search.
    """
    rest = missing(experiment)
    note_lost_runs(experiment, rest, progress)
    if rest:
        with site_of(experiment.head.plan, progress) as site:
            disclose(experiment, progress)
            ask(experiment, progress)
            settle_rates(experiment, progress, site)
            run_all(experiment, progress, next_rate, site)
    notes = experiment.run_notes().values()
    return not missing(experiment) and all(note.state != "failed" for note in notes)


def missing(experiment: Experiment) -> dict[RunKey, list[Level]]:
    """Return the missing levels by run, in order; for a search, the levels that it may still need."""
    finished = experiment.finished()
    if experiment.head.suite.objective is not None:
        # A search decides when to end, and records its end in the note.
        ended = {number for number, note in experiment.run_notes().items() if note.state in ("done", "lost")}
        finished |= {(number, level.index) for number in ended for level in experiment.head.levels}
    rest = {run: _missing_of(run, experiment.head, finished) for run in experiment.head.order}
    return {run: levels for run, levels in rest.items() if levels}


def _missing_of(run: RunKey, head: ExperimentHead, finished: Collection[tuple[int, int]]) -> list[Level]:
    """Return a run's missing levels; a suite's steps are repeated as a whole."""
    rest = [level for level in head.levels if (run.number, level.index) not in finished]
    groups = {level.suite for level in rest if level.step is not None}
    return [
        level for level in head.levels if level in rest or (level.step is not None and level.suite in groups)
    ]


def note_lost_runs(experiment: Experiment, rest: Collection[RunKey], progress: Progress) -> None:
    """Record that the rest of the note is lost, for complete runs without a final note.

    The missing counts can only be read at the end of a run, while its server still runs.
    """
    notes = experiment.run_notes()
    for run in experiment.head.order:
        note = notes.get(run.number)
        if run in rest or (note is not None and note.is_final):
            continue
        experiment.write_run_note(run, RunNote(state="lost", **(note.of_the_disk() if note else {})))
        progress.notice(
            f"run {run.number}, {run.configuration}: its load levels are complete, but its final note is "
            "lost: the run was killed after its last load level, or the note was damaged"
        )


def disclose(experiment: Experiment, progress: Progress) -> None:
    """Record the facts about this machine, or check that they have not changed."""
    progress.stage("recording the properties of this machine")
    disclose_host(experiment)


def ask(experiment: Experiment, progress: Progress) -> None:
    """Check before any measurement that our servers are installed and have room, and check the user's servers.

    Configurations without missing levels are not checked. Raises DynoError.
    """
    rest = {run.configuration for run in missing(experiment)}
    configurations = [each for each in experiment.head.configurations if each.name in rest]
    check_installed(configurations)
    check_may_drop_caches(experiment.head)
    for remark in remarks(configurations):
        progress.notice(remark)
    for suite in experiment.head.suites:
        check_room(suite, experiment.head.of_suite(suite).levels, configurations)
    ask_users_servers(experiment.head, [each for each in configurations if each.url is not None], progress)
    for notice in slow_preparations(experiment.head.suites, experiment.head.levels, configurations):
        progress.notice(*notice)


def run_all(
    experiment: Experiment, progress: Progress, next_rate: NextRate | None = None, site: Site = HERE
) -> None:
    remove_abandoned()
    rest = missing(experiment)
    head = experiment.head
    left = time_left(head.suites, list(rest.values()), head.plan.testbed, lowest_bound(head.configurations))
    for key, levels in rest.items():
        run = Run(experiment, key, levels, progress, left, next_rate, site)
        left.run_begins()
        try:
            run.carry_out()
        except DynoError as error:
            note_failure(experiment, key, error)
            if isinstance(error, FleetError):
                raise
            progress.run_failed(key, error)
        left.run_ends(sum(level.planned_s for level in levels[run.done :]))


def note_failure(experiment: Experiment, key: RunKey, error: DynoError) -> None:
    """Replace the run's note with the failure, but keep its facts about the disk."""
    noted = experiment.readable_run_notes()[0].get(key.number)
    kept = noted.of_the_disk() if noted else {}
    experiment.write_run_note(key, RunNote(state="failed", reason=str(error), hint=error.hint, **kept))
