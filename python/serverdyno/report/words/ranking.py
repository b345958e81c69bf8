"""The sentence on a ranking by the server's CPU time a request (`figures.cpu_ranking`)."""

from __future__ import annotations

from serverdyno import wording
from serverdyno.protocols.work import Terms
from serverdyno.report.figures.cpu_ranking import CpuRanking


def by_cpu(found: CpuRanking | None, terms: Terms) -> str:
    """Return the ranking in words; nothing where there is none, or where its first two may be equal."""
    if found is None or not found.proven:
        return ""
    costs = ", ".join(f"{name} {wording.significant(cost)} µs" for name, cost in found.costs)
    return f"By the server's CPU time a {terms.operation}, least first: {costs}."
