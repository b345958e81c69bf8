"""The experiment's methodology: suite, length, load, order, generator, statistics and consent."""

from __future__ import annotations

from serverdyno import wording
from serverdyno.analysis.trust import TAKEN_SHARE
from serverdyno.plan import expand
from serverdyno.plan.model import Configuration
from serverdyno.plan.spoken import protocols_of
from serverdyno.report.basis import NAMES_STATEMENT, shortening
from serverdyno.report.figures.results import Results
from serverdyno.report.model import Fact
from serverdyno.report.source import Source
from serverdyno.report.subjects import capacity, codings, differences, http2, negotiated, open_load, tls

DEFAULTS = "all settings are at the driver's defaults"
FIGURES = (
    "Throughput: mean over the repetitions of a load level. Peak: the highest of these means. Overall "
    "average: the mean of these means. Improvement: configuration / base - 1. 1 Mbit/s is 10^6 bits/s. "
)
INTERVAL = (
    "The 95 % interval of an improvement is a t interval on the logarithm of the ratio. The noise is "
    "estimated from {runs}. A comparison excludes at most one outlying run, which the report names. The "
    "peak is cross-validated: each half of the runs is evaluated at the load level where the other half "
    "peaks. Three or more configurations share one pooled variance; a comparison uses the variance of its "
    "pair if that is larger. Intervals are not widened for the number of comparisons."
)
VERDICT = (
    "Faster or slower: the interval excludes 0 %. Equivalent: the whole interval lies within {within:g} % on both "
    "sides. No difference shown: all other cases. The two may still differ by less than the experiment can show."
)
VERDICT_BEYOND = (
    "Faster or slower: the whole interval lies beyond the plan's minimum effect of {least:g} %. Equivalent: the "
    "whole interval lies within {within:g} % on both sides. No difference shown: all other cases."
)
CORRECTED = (
    " Corrected for {correction}: at most 5 % of experiments make any false claim among them (Holm, 1979). "
    "Of these 5 percentage points, averages get 4.9 and peaks 0.1. Once all claims of one kind are proven, the other "
    "kind gets all 5."
)
CURVES = (
    "The peak with its interval is cross-validated; the load levels where it may lie come from subset "
    "selection (Gupta, 1965). A dip, drop or collapse is reported if noise alone would probably not cause it: of "
    "20,000 simulated flat curves with normally distributed noise, at most 5 % have one so large. The rule needs "
    "three repetitions."
)
CLOSED_LOAD = (
    "Each thread starts its next operation when the previous one ends, so a stalled server gets fewer requests. "
    "Response times therefore apply to a closed load, not to a fixed arrival rate. The number of clients is not a "
    "number of users."
)


RATE_BOUND = (
    "A load level whose requests, including failed ones, reached 90 % of this rate is marked rate-bound: it measures "
    "the plan's bound, not the server."
)
NOISE = (
    "A load level is marked noisy if other programs and the hypervisor took more than "
    f"{TAKEN_SHARE * 100:g} % of the CPUs of the generator or the server (whichever has fewer). It is "
    f"also marked noisy if the generator waited for a CPU for more than {TAKEN_SHARE * 100:g} % of the "
    "window. It has no mark if this was not measured."
)
UNRECORDED_CPUS = "on CPUs that the experiment did not record"


def methodology(results: Results) -> tuple[Fact, ...]:
    source = results.source
    facts = [
        *_suite(source),
        Fact("Load levels", _levels(source)),
        Fact("Protocol", _protocol(source)),
        *_work(source),
        Fact("Load", open_load.load(source) if source.open else CLOSED_LOAD),
        *([Fact("Rates", peaks)] if (peaks := open_load.peaks(source)) else []),
        *([Fact("Search", searched)] if (searched := capacity.search(source.head.suite)) else []),
        Fact("Errors", _error_policy(source)),
        Fact("Order", _order(source)),
        Fact("Verification", _verification(source)),
        Fact("Generator", _generator(results)),
        *_servers(source),
        *_bounds(source),
        Fact("Noise", NOISE),
        Fact("Consent", _consent(source)),
        Fact("Figures", FIGURES + results.terms.throughput_meaning),
        Fact("Intervals", INTERVAL.format(runs=_runs(source))),
        Fact("Verdicts", _verdicts(results)),
        Fact("Curves", CURVES),
        Fact("Names", NAMES_STATEMENT),
    ]
    return tuple(facts)


def _verdicts(results: Results) -> str:
    source = results.source
    least, within = source.margins.minimum_percent, source.margins.equivalence_percent
    said = VERDICT_BEYOND.format(least=least, within=within) if least else VERDICT.format(within=within)
    correction = differences.correction(
        [found for comparison in results.comparisons for found in comparison.improvements]
    )
    return said + (CORRECTED.format(correction=correction) if correction else "")


def _runs(source: Source) -> str:
    return (
        "the scatter of the runs within pairs of successive rounds (forward and reverse), which are close in time"
        if source.paired
        else "the runs of both configurations, each with its own variance (Welch, 1947)"
    )


def _suite(source: Source) -> list[Fact]:
    suite = source.head.suite
    facts = [
        Fact("Suite", f"{suite.title} ({suite.name}), workload {suite.workload}."),
        Fact("Source", suite.source),
        Fact("Changed", _changes(source)),
    ]
    if suite.certainty:
        known = "; ".join(f"{parameter}: {text}" for parameter, text in suite.certainty.items())
        facts.append(Fact("Certainty", known))
    return facts


def _changes(source: Source) -> str:
    head = source.head
    lengths, planned = {level.length_s for level in head.levels}, expand.levels(head.suite)
    if not source.shortened:
        return "Not shortened."
    levels = (
        "Clients and threads as in the suite"
        if [(level.clients, level.rate_per_s) for level in head.levels]
        == [(level.clients, level.rate_per_s) for level in planned]
        else f"{len(head.levels)} of {len(planned)} load levels"
    )
    return (
        f"{shortening(source)}: each load level takes {wording.seconds_span(lengths)} instead of "
        f"{wording.seconds(head.suite.length_s)}, with shorter ramps. {levels}."
    )


def _levels(source: Source) -> str:
    levels = source.head.levels
    clients = wording.listing(list(dict.fromkeys(f"{level.clients:,}" for level in levels)))
    rates = [f"{level.rate_per_s:,}" for level in levels if level.rate_per_s is not None]
    offered = [f"Offered: {wording.listing(rates)} {source.head.suite.terms.rate_unit}."] if rates else []
    threads = sorted({level.threads for level in levels})
    parts = [
        *offered,
        f"{clients} clients, {wording.listing([f'{count:,}' for count in threads])} "
        f"{('thread' if threads == [1] else 'threads')} per client.",
        f"Length {wording.seconds_span({level.length_s for level in levels})}, including a ramp up of "
        f"{wording.seconds_span({level.ramp_up_s for level in levels})} and a ramp down of "
        f"{wording.seconds_span({level.ramp_down_s for level in levels})}. Only operations that complete in the window "
        f"of {wording.seconds_span({level.window_s for level in levels})} between the ramps count.",
        f"Start delay up to {wording.seconds_span({level.delay_s for level in levels})}, think time "
        f"{wording.seconds_span({level.think_time_s for level in levels})}.",
    ]
    return " ".join(parts)


def _work(source: Source) -> list[Fact]:
    suite = source.head.suite
    facts = suite.work.facts(suite.settings(suite.work), negotiated.client_cache(source))
    return [Fact(label, text) for label, text in facts]


def _protocol(source: Source) -> str:
    suite = source.head.suite
    timeout = wording.seconds(suite.timeout_s)
    spoken = protocols_of(source.head.configurations, suite)
    return " ".join(protocol.described(suite.settings(protocol), timeout) for protocol in spoken)


def _error_policy(source: Source) -> str:
    most = source.head.suite.leave_after_errors
    if most is None:
        return "Clients continue after errors."
    at = "at its first error" if most == 1 else f"after {wording.plural(most, 'error')}"
    return f"A client stops {at}. The report counts the clients that stopped."


def _order(source: Source) -> str:
    head = source.head
    first = ", ".join(f"{key.configuration} r{key.repetition}" for key in list(head.order)[:12])
    more = " ..." if len(head.order) > 12 else ""
    return f"{head.plan.order.capitalize()}: {first}{more}. Seed {head.seed}."


def _verification(source: Source) -> str:
    checked = wording.share(source.head.plan.generator.verify_share)
    return source.head.suite.work.verification(checked)


def _generator(results: Results) -> str:
    plan = results.source.head.plan.generator
    where = f"on {wording.cpu_set(plan.cpus)}" if plan.cpus else UNRECORDED_CPUS
    return f"{wording.plural(plan.threads, 'thread')} {where}. {_share(results)}"


def _share(results: Results) -> str:
    if all(level.hidden_speed is None for level in results.levels):
        return "The generator's share of the response times was not measured."
    return (
        "The generator's share of the response times is measured at every load level. If the server may be more than "
        "10 % faster without the generator, the figure is marked generator-limited."
    )


def _servers(source: Source) -> list[Fact]:
    facts = []
    for configuration in source.head.configurations:
        settings = ", ".join(f"{name} = {value}" for name, value in configuration.settings.items())
        where = _server_cpus(source, configuration)
        text = f"{configuration.server}, {where}; {settings or DEFAULTS}."
        came_to = negotiated.sentences(source, configuration.name) or tls.sentences(
            source, configuration.name
        )
        spoken = http2.sentences(source, configuration.name)
        decoded = codings.sentences(source, configuration.name)
        parts = filter(None, (text, spoken, came_to, decoded))
        facts.append(Fact(f"Configuration {configuration.name}", " ".join(parts)))
    return facts


def _server_cpus(source: Source, configuration: Configuration) -> str:
    if configuration.url is not None:
        return "on CPUs that its user chose. Whether the generator shares any of them is not known"
    if not configuration.cpus:
        return UNRECORDED_CPUS
    where = f"on {wording.cpu_set(configuration.cpus)}"
    shared = source.cpus_shared_with_generator(configuration)
    if not shared:
        return where
    which = f" {wording.cpu_set(shared)}" if len(shared) < len(configuration.cpus) else ""
    return f"{where},{which} shared with the generator"


def _bounds(source: Source) -> list[Fact]:
    parts = [
        f"{configuration.name}: at most {wording.plural(bounds.max_clients, 'client')}, "
        f"{wording.rate(bounds.max_rate_per_s)} requests/s over all clients, "
        f"{wording.seconds(bounds.max_length_s)} per load level"
        for configuration in source.head.configurations
        if (bounds := configuration.bounds) is not None
    ]
    return [Fact("Bounds", f"{'; '.join(parts)}. {RATE_BOUND}")] if parts else []


def _consent(source: Source) -> str:
    external = [configuration for configuration in source.head.configurations if configuration.url]
    if not external:
        return "Serverdyno started all servers on loopback, which needs no consent."
    targets = wording.listing([f"{configuration.name} ({configuration.url})" for configuration in external])
    return (
        f"Servers that Serverdyno did not start: {targets}. It sends no load to a target outside loopback before "
        "the target has served the token file that proves its consent. No option disables this check."
    )
