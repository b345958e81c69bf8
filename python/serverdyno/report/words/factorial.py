"""What is said of a plan that crosses factors: the main effect of each, and whether one depends on another."""

from __future__ import annotations

from serverdyno import wording
from serverdyno.analysis.factorial import Effect
from serverdyno.protocols.work import Terms
from serverdyno.report.figures.factorial import Crossed
from serverdyno.report.model import Finding
from serverdyno.report.subjects.differences import reason


def verdict(found: Crossed, terms: Terms) -> str:
    """Return `sendfile off: no difference shown; workers 2: +40 % (95 % interval ...)`, and interactions."""
    what = "rate" if terms.throughput_counts_operations else "throughput"
    if any(effect.proven or effect.obstacles for effect in found.main):
        said = f"Main effects on the average {what}: {'; '.join(_part(effect) for effect in found.main)}."
    else:
        names = wording.listing([effect.factor for effect in found.main])
        spans = "; ".join(f"{_change(effect)}: {_interval(effect)}" for effect in found.main)
        said = f"No winner: no proven difference to the average {what} from {names} ({spans})."
    depends = [effect for effect in found.interactions if effect.proven]
    if depends:
        pairs = wording.listing([f"{effect.factor} and {effect.other}" for effect in depends])
        said += f" The effects of {pairs} depend on each other: read the single combinations."
    return said


def _part(effect: Effect) -> str:
    measured = f"{wording.change(effect.percent)} ({_interval(effect)})"
    if effect.obstacles:
        return f"{_change(effect)}: not comparable, since {why(effect)}; measured {measured}"
    if not effect.proven:
        return f"{_change(effect)}: no proven difference ({_interval(effect)})"
    bound = ("at least " if effect.percent > 0 else "at most ") if effect.at_least else ""
    return f"{_change(effect)}: {bound}{measured}"


def why(effect: Effect) -> str:
    """Why an effect is not comparable."""
    return wording.listing([reason(each) for each in effect.obstacles])


def _change(effect: Effect) -> str:
    return f"{effect.factor} {effect.level} instead of {effect.base}"


def _interval(effect: Effect) -> str:
    return f"95 % interval {wording.change_span(effect.low_percent, effect.high_percent)}"


def findings(found: Crossed, tables: dict[str, str]) -> list[Finding]:
    """One for each main effect and each proven interaction."""
    said = [
        Finding("Main effect", f"{_part(effect)}.", f"Mean over all other settings; {tables['effects']}.")
        for effect in found.main
    ]
    return said + [
        Finding(
            "Interaction",
            f"The effect of {effect.factor} depends on {effect.other}: {wording.change(effect.percent)} "
            f"({wording.change_span(effect.low_percent, effect.high_percent)}).",
            f"Half the difference of the two effects; {tables['effects']}.",
        )
        for effect in found.interactions
        if effect.proven
    ]
