"""What is said of capacity at an objective: the rate, its interval, what limited it, and who holds more."""

from __future__ import annotations

from serverdyno import wording
from serverdyno.analysis.capacity import End
from serverdyno.analysis.improvement import percent_improvement
from serverdyno.analysis.levels import AtLevel
from serverdyno.analysis.trust import Limit, Mark
from serverdyno.plan.model import Suite
from serverdyno.report.figures.capacity import Capacities, Searched, TrialFigures
from serverdyno.report.figures.results import ConfigurationResult, Results
from serverdyno.report.model import Finding
from serverdyno.report.subjects.differences import reason
from serverdyno.report.subjects.limits import LIMITED_BY, no_limit_words

SEARCH = (
    "The highest rate that holds {objective} is looked for between {lowest} and {highest} {operations}/s. The rate is "
    "doubled until a trial fails; then each trial is at the median of what is known (QUEST, Watson and Pelli 1983). A "
    "trial holds where the server kept up and each bound was met; one that failed is slower than every answer. "
    "Capacity is the rate at which half of the trials hold. A search ends once half of its 95 % interval is within "
    "{precision:g} %, or after {most} trials."
)
BUSY_SHARE = 0.9
"""Of the busiest generator thread's time, from which on its CPU is named as its limit."""


def search(suite: Suite) -> str:
    """The line of the methodology; nothing where the load levels are given."""
    if suite.open is None or suite.objective is None:
        return ""
    lowest, highest = suite.open.rate_per_s
    return SEARCH.format(
        objective=suite.objective.words,
        lowest=f"{lowest:,}",
        highest=f"{highest:,}",
        operations=suite.terms.operations,
        precision=suite.open.precision_percent,
        most=suite.open.most_trials,
    )


def verdict(found: Capacities) -> str:
    """Who holds more where that is proven, then the capacity of each."""
    said = [_gap(base, other, level, found) for base, other, level in found.compared if level.proven]
    if not said and found.compared:
        said = ["No winner: no difference in capacity is proven."]
    return " ".join([*said, *(claim(each, found) for each in found.searched)])


def claim(searched: Searched, found: Capacities) -> str:
    """`target holds p99 ≤ 50 ms up to 12,300 requests/s (95 % interval 11,900 to 12,800).`"""
    name, holds, within = searched.name, f"holds {found.objective.words}", found.within
    if not searched.trials:
        return f"{name}: no trial finished."
    if searched.ends == {End.LOWEST_FAILS}:
        words = f"{name} does not hold {found.objective.words} at the lowest rate allowed"
        return f"{words}, {within.lowest_per_s:,} {found.operations}/s{_by_generator(searched, found)}."
    if searched.ends == {End.HIGHEST_HOLDS}:
        return (
            f"{name} still {holds} at the highest rate allowed, {within.highest_per_s:,} {found.operations}/s; its "
            "capacity is at least that."
        )
    if searched.rate_per_s is None:
        return f"{name}: {_disagreement(searched)}, so there is no figure."
    least = "at least " if searched.by_generator else ""
    rate = f"{least}{wording.rate(searched.rate_per_s)} {found.operations}/s"
    words = f"{name} {holds} up to {rate} ({interval(searched)})"
    return f"{words}{_by_generator(searched, found)}.{_budget(searched, found)}"


def interval(searched: Searched) -> str:
    """`95 % interval 11,900 to 12,800`; an end that is not known is said to be none."""
    low, high = searched.low_per_s, searched.high_per_s
    if low is None or high is None:
        known = f"above {wording.rate(low)}" if low is not None else f"below {wording.rate(high)}"
        return "95 % interval not known" if low is None and high is None else f"95 % interval {known}"
    return f"95 % interval {wording.rate(low)} to {wording.rate(high)}"


def sure(found: Capacities) -> str:
    """What the answer rests on."""
    trials = sum(len(each.trials) for each in found.searched)
    searches = sum(len(each.estimates) for each in found.searched)
    said = f"{wording.plural(searches, 'search', 'searches')}, {wording.plural(trials, 'trial')} in all"
    undone = [each.name for each in found.searched if None in each.ends]
    return said + (f"; not over: {wording.listing(undone)}." if undone else ".")


def limit(found: Capacities, results: Results) -> str:
    """What was at its limit where trials failed first."""
    parts = []
    for searched, result in zip(found.searched, results.configurations, strict=True):
        if words := _limit_of(searched, result):
            parts.append(f"{searched.name}: {words}")
    return "; ".join(parts) + "." if parts else ""


def _limit_of(searched: Searched, result: ConfigurationResult) -> str:
    if searched.by_generator:
        return LIMITED_BY[Limit.GENERATOR]
    failed = {trial.rate_per_s for trial in searched.trials if not trial.held}
    first = next((mix for mix in result.finished if mix.level in failed), None)
    seen = () if first is None else result.limits_of(first)
    named = [LIMITED_BY[each] for each in seen if each is not Limit.OFFERED]
    return named[0] if named else ("" if first is None else no_limit_words([first]))


def findings(found: Capacities, tables: dict[str, str]) -> tuple[Finding, ...]:
    """Each configuration, each pair, and rates that held every time."""
    said = [Finding("Capacity", claim(each, found), f"{tables['capacity']}.") for each in found.searched]
    for each in found.searched:
        held = [of_run.held_per_s for of_run in each.estimates.values()]
        known = [rate for rate in held if rate is not None]
        if known and len(known) == len(held) and each.rate_per_s is not None:
            rate = f"{min(known):,} {found.operations}/s"
            words = f"{each.name} held it in every trial up to {rate}: the rate to plan with."
            said.append(Finding("Held every time", words, f"{tables['trials']}."))
    for base, other, level in found.compared:
        words = _gap(base, other, level, found) if level.proven else _no_gap(base, other, level)
        said.append(Finding("Difference", words, f"{tables['capacity']}."))
    return tuple(said)


def _gap(base: str, other: str, level: AtLevel, found: Capacities) -> str:
    percents = (level.percent, level.low_percent, level.high_percent)
    more, less = other, base
    if level.percent < 0:
        more, less = base, other
        turned = [None if each is None else percent_improvement(1 + each / 100, 1) for each in percents]
        percents = (turned[0] or 0.0, turned[2], turned[1])
    change, span = wording.change(percents[0]), wording.change_span(percents[1], percents[2])
    return (
        f"{more} holds {found.objective.words} at a {change} higher rate than {less} (95 % interval {span})."
    )


def _no_gap(base: str, other: str, level: AtLevel) -> str:
    if level.obstacles:
        reasons = "; ".join(reason(each) for each in level.obstacles)
        return f"{other} and {base} can't be compared: {reasons}."
    if level.low_percent is None:
        return f"{other} against {base}: {wording.change(level.percent)}; a verdict takes two repetitions."
    span = wording.change_span(level.low_percent, level.high_percent)
    return f"{other} against {base}: {wording.change(level.percent)} (95 % interval {span}), no difference is proven."


def _by_generator(searched: Searched, found: Capacities) -> str:
    """That the load generator failed the trials, and by what it shows."""
    if not searched.by_generator:
        return ""
    failed = [trial for trial in searched.trials if not trial.held and Mark.GENERATOR_LIMITED in trial.marks]
    lowest = min(failed, key=lambda trial: trial.rate_per_s)
    return f". The load generator, and not the server, may have been the limit: {_seen(lowest, found.operations)}"


def _seen(trial: TrialFigures, operations: str) -> str:
    parts = []
    if trial.late_ms is not None:
        parts.append(f"it sent {operations} {wording.significant(trial.late_ms)} ms late (p99)")
    if trial.generator_cpu_share >= BUSY_SHARE:
        parts.append(f"its busiest thread used {wording.share(trial.generator_cpu_share)} of a CPU")
    return f"at {trial.rate_per_s:,} {operations}/s {wording.listing(parts) or 'its part of the times was large'}"


def _budget(searched: Searched, found: Capacities) -> str:
    if End.BUDGET not in searched.ends:
        return ""
    return (
        f" The search ended after {found.within.most_trials} trials, before it was as precise as asked for."
    )


def _disagreement(searched: Searched) -> str:
    if None in searched.ends:
        return "a search is not over"
    said = sorted(f"{end}" for end in searched.ends if end is not None)
    return f"its searches do not agree ({wording.listing(said)})"
