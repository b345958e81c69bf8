"""Measures each configuration's peak with a short closed load before the runs, to derive a suite's open rates.

All configurations get the same rates, because response times can be compared only at the same rate. The rates are
shares of the lowest peak, so that each configuration can keep up.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from serverdyno.errors import ServerError
from serverdyno.fleet import local
from serverdyno.fleet.preflight import preflight
from serverdyno.plan import expand
from serverdyno.plan.model import Configuration, Level
from serverdyno.run.ask import looked
from serverdyno.run.progress import Progress
from serverdyno.run.site import HERE, Site
from serverdyno.run.under_test import under_test
from serverdyno.store.experiment import Experiment
from serverdyno.store.head import PeakNote, PeakRates

if TYPE_CHECKING:
    from serverdyno.counted import Counted

MOST_FAILED = 0.01
"""Largest share of failed requests. Above it, the measured peak is not the server's."""


def settle_rates(experiment: Experiment, progress: Progress, site: Site = HERE) -> None:
    """Measure the peaks and record them with the suite's rates, unless the rates are known.

    Raises DynoError if a peak can't be measured, or is too low for distinct rates.
    """
    head = experiment.head
    opened = head.suite.open
    if opened is None or not opened.percent_of_peak:
        return
    peaks = [_peak(experiment, found, progress, site) for found in head.configurations]
    lowest = min(peaks, key=lambda peak: peak.requests_s)
    rates = expand.rates_of_peak(opened.percent_of_peak, lowest.requests_s)
    if len(set(rates)) < len(rates):
        raise ServerError(
            f"the peak of {lowest.configuration} is only {lowest.requests_s:.1f} requests/s, so several of its "
            "percentages (percent_of_peak) give the same rate",
            hint="Set the rates yourself: rate_per_s in [open].",
        )
    experiment.settle_rates(rates, PeakRates(percents=opened.percent_of_peak, peaks=peaks))
    told = ", ".join(f"{peak.configuration} {peak.requests_s:,.0f}" for peak in peaks)
    progress.notice(
        f"peaks in requests/s: {told}; rates offered to every configuration: "
        f"{', '.join(f'{rate:,}' for rate in rates)}"
    )


def _peak(experiment: Experiment, configuration: Configuration, progress: Progress, site: Site) -> PeakNote:
    """Measure the peak of one configuration, with as many clients as the open load has connections."""
    progress.stage(f"measuring the peak of {configuration.name}")
    closed = replace(experiment.head.levels[0], name="peak", rate_per_s=None)
    with under_test(experiment.head, configuration, [closed], site) as (server, setup):
        looked(setup, [closed])
        preflight(setup, closed)
        seed = local.stream_seed(experiment.head.seed, 0, 0)
        result = local.run_level(closed, setup, seed, lambda *_: None)
        server.check()
    failed = sum(error.in_window for error in result.errors)
    if failed > MOST_FAILED * (result.operations + failed) or not result.operations:
        example = result.errors[0].example if result.errors else "no request was answered"
        raise ServerError(
            f"could not measure the peak of {configuration.name}: {failed:,} of "
            f"{result.operations + failed:,} requests failed with {closed.clients} clients: {example}",
            hint="Use fewer clients, or set the rates yourself: rate_per_s in [open].",
        )
    return _note(configuration.name, closed, result)


def _note(name: str, closed: Level, result: Counted) -> PeakNote:
    return PeakNote(
        configuration=name,
        requests_s=result.operations / result.window_s,
        connections=closed.clients * closed.threads,
        window_s=result.window_s,
        ready_work_s=result.ready_work_s,
        run_delay_share=_run_delay_share(result),
    )


def _run_delay_share(result: Counted) -> float | None:
    delay_s = result.run_delay_s
    return None if delay_s is None else delay_s / (result.generator_threads * result.window_s)
