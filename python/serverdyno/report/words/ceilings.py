"""The generator's ceiling as it is disclosed: what it is, and beside it what the reference server reached.

The ceiling is one of CPU time. With few clients the round trip bounds any closed loop, so that the rate that was
reached says more there. How a ceiling is made of a probe is in `runner/calibrate.py`; nothing is computed here.
"""

from __future__ import annotations

from serverdyno import wording
from serverdyno.report.figures.results import Results
from serverdyno.report.model import Disclosure, Fact
from serverdyno.report.source import Source
from serverdyno.store.records import CeilingRecord

WHAT = (
    "Operations for each CPU second that the generator used, times its threads: a ceiling of CPU time, not of the "
    "round trip. A few clients wait for their answers and stay far below it, whatever the server; there the mark G "
    "can't tell that the generator is the slower of the two, and the rate that the same clients reached with the "
    "reference server is what to hold a throughput against."
)


def disclosed(source: Source, results: Results) -> tuple[Disclosure, ...]:
    """One fact a probe; nothing where no ceiling was measured."""
    if not source.ceilings:
        return ()
    facts = [Fact("what it is", WHAT), *(_fact(ceiling, results) for ceiling in source.ceilings)]
    return (Disclosure("Generator's ceiling", tuple(facts)),)


def _fact(ceiling: CeilingRecord, results: Results) -> Fact:
    load = f"{wording.plural(ceiling.clients, 'client')} x {wording.plural(ceiling.threads, 'thread')}"
    whose = f", for {wording.listing(ceiling.configurations)}" if ceiling.configurations else ""
    judged = {
        record.ceiling_operations_s
        for record in results.used
        if record.mix == ceiling.mix
        and record.ceiling_operations_s is not None
        and (not ceiling.configurations or record.configuration in ceiling.configurations)
    }
    by = (
        f"; mixes of that load are held against a ceiling of {wording.span(min(judged), max(judged))}"
        if judged
        else ""
    )
    reached = wording.rate(ceiling.operations / ceiling.window_s)
    cpu_s = ceiling.generator_cpu_user_s + ceiling.generator_cpu_system_s
    busy = wording.cpus(cpu_s / ceiling.window_s)
    return Fact(
        f"{load}{whose}",
        f"reached {reached} {results.terms.operations}/s with the reference server, the generator using {busy} "
        f"CPUs{by}",
    )
