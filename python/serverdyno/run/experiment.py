"""The experiment as a table of stages. `carry_out` begins one or continues it: it does what is not done yet."""

from __future__ import annotations

from collections.abc import Collection

from serverdyno.errors import DynoError
from serverdyno.fleet.contract import FleetError
from serverdyno.plan.model import Mix, RunKey
from serverdyno.probes.durability import remove_abandoned
from serverdyno.run.ask import ask_users_servers, check_installed
from serverdyno.run.disclose import disclose_host
from serverdyno.run.peaks import settle_rates
from serverdyno.run.progress import Progress
from serverdyno.run.remarks import remarks
from serverdyno.run.room import check_room
from serverdyno.run.run import NextRate, Run
from serverdyno.run.scenario import check_may_drop_caches
from serverdyno.run.site import HERE, Site, site_of
from serverdyno.run.time_left import time_left
from serverdyno.store.experiment import Experiment
from serverdyno.store.head import ExperimentHead
from serverdyno.store.note import RunNote


def carry_out(experiment: Experiment, progress: Progress, next_rate: NextRate | None = None) -> bool:
    """Runs every mix that has no record yet, in the experiment's order. True if every run is whole.

    A run that fails is noted and the others go on. Every finished mix is kept at once, so that an interrupted
    experiment continues where it was. Raises DynoError for what keeps all of them from running. `next_rate`: of a
    search for capacity.
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


def missing(experiment: Experiment) -> dict[RunKey, list[Mix]]:
    """The mixes that have no record, by run, in order; of a search those that it may still take."""
    finished = experiment.finished()
    if experiment.head.suite.objective is not None:
        # A search ends by itself, and its note says so.
        ended = {number for number, note in experiment.run_notes().items() if note.state in ("done", "lost")}
        finished |= {(number, mix.index) for number in ended for mix in experiment.head.mixes}
    rest = {run: _missing_of(run, experiment.head, finished) for run in experiment.head.order}
    return {run: mixes for run, mixes in rest.items() if mixes}


def _missing_of(run: RunKey, head: ExperimentHead, finished: Collection[tuple[int, int]]) -> list[Mix]:
    """The mixes of a run to be done: those that aren't finished, and all of a group of which one isn't."""
    rest = [mix for mix in head.mixes if (run.number, mix.index) not in finished]
    groups = {mix.suite for mix in rest if mix.step is not None}
    return [mix for mix in head.mixes if mix in rest or (mix.step is not None and mix.suite in groups)]


def note_lost_runs(experiment: Experiment, rest: Collection[RunKey], progress: Progress) -> None:
    """Says of each run whose mixes are whole and whose note is not that the rest of the note is lost.

    Only its own end could tell it: the server that was counted is gone.
    """
    notes = experiment.run_notes()
    for run in experiment.head.order:
        note = notes.get(run.number)
        if run in rest or (note is not None and note.is_final):
            continue
        experiment.write_run_note(run, RunNote(state="lost", **(note.of_the_disk() if note else {})))
        progress.notice(
            f"run {run.number}, {run.configuration}: the note of its end is lost, since it was killed after its last "
            "mix, or the note was damaged; its mixes are complete"
        )


def disclose(experiment: Experiment, progress: Progress) -> None:
    """Keeps what is known of this machine, or makes sure that it is still the same one."""
    progress.stage("looking at this machine")
    disclose_host(experiment)


def ask(experiment: Experiment, progress: Progress) -> None:
    """Make sure that servers of ours are installed and have room, and ask those of the user, before anything takes
    time. Raises DynoError. Of those that are still to be measured.
    """
    rest = {run.configuration for run in missing(experiment)}
    configurations = [each for each in experiment.head.configurations if each.name in rest]
    check_installed(configurations)
    check_may_drop_caches(experiment.head)
    for remark in remarks(configurations):
        progress.notice(remark)
    for suite in experiment.head.suites:
        check_room(suite, experiment.head.of_suite(suite).mixes, configurations)
    ask_users_servers(experiment.head, [each for each in configurations if each.url is not None], progress)


def run_all(
    experiment: Experiment, progress: Progress, next_rate: NextRate | None = None, site: Site = HERE
) -> None:
    """Carries out every run that isn't whole."""
    remove_abandoned()
    rest = missing(experiment)
    head = experiment.head
    left = time_left(head.suites, list(rest.values()), head.plan.testbed)
    for key, mixes in rest.items():
        run = Run(experiment, key, mixes, progress, left, next_rate, site)
        left.run_begins()
        try:
            run.carry_out()
        except DynoError as error:
            note_failure(experiment, key, error)
            if isinstance(error, FleetError):
                raise
            progress.run_failed(key, error)
        left.run_ends(sum(mix.planned_s for mix in mixes[run.done :]))


def note_failure(experiment: Experiment, key: RunKey, error: DynoError) -> None:
    """In place of what was noted as the run began, or by an earlier part of it, but for what that says of the disk."""
    noted = experiment.readable_run_notes()[0].get(key.number)
    kept = noted.of_the_disk() if noted else {}
    experiment.write_run_note(key, RunNote(state="failed", reason=str(error), hint=error.hint, **kept))
