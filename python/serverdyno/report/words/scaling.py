"""What is said of scaling over CPUs: the law of each server, and what the most CPUs brought over the fewest."""

from __future__ import annotations

from collections.abc import Sequence

from serverdyno import wording
from serverdyno.analysis.scaling import Trouble
from serverdyno.analysis.trust import LIMITS, limits
from serverdyno.protocols.work import Terms
from serverdyno.report.figures.scaling import Group
from serverdyno.report.model import Finding


def law_text(group: Group, terms: Terms) -> str:
    """What the Universal Scalability Law says of a group, or why it says nothing."""
    law = group.law
    if isinstance(law, Trouble):
        return (
            f"{group.name}: the Universal Scalability Law (Gunther 2007) is not fitted to {law.value}, so nothing is "
            "said of more CPUs."
        )
    fit = f"R squared {wording.significant(law.r_squared)}, error {wording.share(law.relative_error)} of the mean"
    if law.trouble is not None:
        return f"{group.name}: {law.trouble.value} ({fit}), so nothing is predicted."
    sigma, kappa = (
        f"{wording.significant(each.value)} ({wording.significant(each.low)} to "
        f"{'no upper end' if each.high is None else wording.significant(each.high)})"
        for each in (law.sigma, law.kappa)
    )
    most = (
        "The figures allow that there is no maximum, or it lies too far beyond them."
        if law.peak_count is None
        else f"The throughput is highest at about {wording.significant(law.peak_count.value)} CPUs."
    )
    return (
        f"{group.name} by the Universal Scalability Law (Gunther 2007), with 95 % intervals: contention {sigma}, "
        f"coherency {kappa}, one CPU {terms.written(law.lam.value)} {terms.unit}; {fit}. {most}"
    )


def findings(found: Sequence[Group], tables: dict[str, str]) -> list[Finding]:
    """One of each group: from the fewest CPUs to the most, and where more brought less."""
    return [_finding(group, tables) for group in found]


def _finding(group: Group, tables: dict[str, str]) -> Finding:
    steps = group.steps
    fewest, most = steps[0], steps[-1]
    claim = (
        f"{group.name} with {most.count} CPUs has {most.speed_up:.2f} times the peak that it has with {fewest.count}: "
        f"{wording.share(most.efficiency)} of linear scaling."
    )
    if negative := [f"{step.count}" for step in steps if step.negative]:
        claim += (
            f" Scaling was negative at {wording.listing(negative)} CPUs: less than with the count before."
        )
    for count, cpus in group.shared.items():
        listed = wording.listing(list(map(str, cpus)))
        claim += (
            f" With {count} the generator could not be kept off CPU {listed}: it took time from the server."
        )
    claim += _of_cores(group)
    words = {LIMITS[mark] for mark in limits(group.marks)}
    if words:
        claim += f" A peak is {wording.listing(sorted(words))}, so the server may scale better."
    if group.left_out:
        claim += f" Without throughput, so left out: {wording.listing(group.left_out)}."
    return Finding("Scaling", claim, f"Highest means; {tables['scaling']}.")


def _of_cores(group: Group) -> str:
    """Hyperthreads are no processors of their own, and memory of another node is farther away."""
    said = ""
    for count, cores in group.cores.items():
        if cores.hyperthreads:
            pairs = (wording.listing(list(map(str, cpus))) for cpus in cores.hyperthreads)
            said += (
                f" The {count} CPUs are {cores.count} cores; hyperthreads of one core: {'; '.join(pairs)}."
            )
        if cores.nodes is not None and len(cores.nodes) > 1:
            said += f" The {count} CPUs lie on NUMA nodes {wording.listing(list(map(str, cores.nodes)))}."
    return said
