"""What is said of an experiment of tasks: who leads in which step and by how much, how sure that is, and caveats."""

from __future__ import annotations

from collections.abc import Sequence

from serverdyno import wording
from serverdyno.analysis.steps import beaten
from serverdyno.report.figures.steps import Step, TaskSource, flushes, repeated_requests
from serverdyno.report.model import Caveat, Fact, Finding
from serverdyno.report.source import memory_bytes
from serverdyno.tasks.bonnie import BONNIE, MIB

MOST_NAMED = 8
"""Steps that a line of the answer names; the table has all."""
NO_RESULT = "Tasks re-create published steps. They are not the original programs, and no figure is a result of theirs."


def verdict(source: TaskSource, steps: Sequence[Step]) -> str:
    """Say who leads in how many steps, or why that can't be told."""
    if not steps:
        return "Nothing was measured yet."
    if len(source.names) < 2:
        return "One configuration was measured, so nothing is compared."
    if _fewest(steps) < 2:
        return (
            "Each configuration ran once, so chance can't be told from a difference: nobody is said to lead."
        )
    counted = [(name, sum(_leads(step, name) for step in steps)) for name in source.names]
    leaders = sorted((each for each in counted if each[1]), key=lambda each: -each[1])
    open_steps = sum(step.lead is None for step in steps)
    if not leaders:
        return f"In none of {len(steps)} steps is one configuration proven faster than all others."
    name, count = leaders[0]
    parts = [f"{name} leads in {count} of {len(steps)} steps"]
    parts += [f"{other} in {number}" for other, number in leaders[1:]]
    rest = f" In {open_steps} nobody is proven faster than all others." if open_steps else ""
    return f"{wording.listing(parts)}.{rest}"


def by_step(source: TaskSource, steps: Sequence[Step]) -> tuple[tuple[str, str], ...]:
    """Return a line for each who leads somewhere, the widest lead first; and one of steps that nobody leads in."""
    if len(source.names) < 2 or not steps or _fewest(steps) < 2:
        return ()
    lines = []
    for name in source.names:
        own = sorted(
            (step for step in steps if _leads(step, name)),
            key=lambda step: -step.lead.ratio if step.lead else 0,
        )
        if own:
            lines.append((f"{name} leads in", _named([_with_lead(step) for step in own])))
    if untold := [_untold(step) for step in steps if step.lead is None]:
        lines.append(("Can't tell in", _named(untold)))
    return tuple(lines)


def sure(source: TaskSource, steps: Sequence[Step]) -> str:
    """Say what the claims rest on."""
    if len(source.names) < 2 or not steps:
        return "No comparison was made."
    if _fewest(steps) < 2:
        return "Two repetitions or more would tell."
    plan, claims = source.head.plan, sum(len(step.gaps) for step in steps)
    return (
        f"{wording.plural(_fewest(steps), 'repetition')} of each, {plan.order}. In brackets 95 % intervals of single "
        f"comparisons. The chance that any of {claims} comparisons claims a false lead is at most 5 %."
    )


def findings(source: TaskSource, steps: Sequence[Step]) -> tuple[Finding, ...]:
    """Return one for each task: the whole of its time, by configuration."""
    found = []
    for task in source.head.tasks:
        totals = {
            name: [sum(step.elapsed_s for step in each.steps) for each in source.of_task(task, name).values()]
            for name in source.names
        }
        known = {name: values for name, values in totals.items() if values}
        if known:
            parts = [f"{name} {wording.significant(sum(all_) / len(all_))} s" for name, all_ in known.items()]
            evidence = "; ".join(
                f"{name}: {', '.join(wording.significant(value) for value in values)} s"
                for name, values in known.items()
            )
            claim = f"All steps of {task} together took {wording.listing(parts)} on average."
            found.append(Finding(task.capitalize(), claim, f"By repetition: {evidence}."))
    return tuple(found)


def caveats(source: TaskSource, steps: Sequence[Step]) -> tuple[Caveat, ...]:
    """Return what must be known before a figure is quoted."""
    head, plan = source.head, source.head.plan
    found = [Caveat(each) for each in source.damaged]
    planned, there = len(head.order) * len(head.tasks), len(source.records)
    if there < planned:
        why = "; ".join(f"{run.folder}: {failure.reason}" for run, failure in source.failures.items())
        found.append(Caveat(f"{planned - there} of {planned} tasks are missing.", why))
    found += _of_flushes(source)
    found += _of_repeats(source)
    if plan.scale < 1:
        found.append(
            Caveat(
                f"Scale {plan.scale:g}: not the sizes of the tasks at full length.",
                "Fewer and smaller files fit into caches that the full ones overflow.",
            )
        )
    found += _of_caches(source)
    if shared := sorted({cpu for each in head.configurations for cpu in each.cpus} & set(head.cpus)):
        found.append(Caveat(f"Client and server share {wording.cpu_set(shared)}, so each slows the other."))
    found.append(
        Caveat(
            "Client and server run on one machine: no network lies between them.",
            "A network of the size of the published one would set most of the times.",
        )
    )
    return tuple(found)


def _of_flushes(source: TaskSource) -> list[Caveat]:
    """Of servers that promise what they don't do, and of those whose syncs nobody counted."""
    told = {name: flushes(source, name) for name in source.names}
    found = [
        Caveat(
            f"{name} made no sync for the {each.asked:,} flushes that it answered.",
            "What its clients take for safe was in memory alone: a power cut loses it. Its times have no part of that "
            "price in them, and are not those of a server that keeps the promise.",
        )
        for name, each in told.items()
        if each.none_made
    ]
    if unknown := [name for name, each in told.items() if each.syncs is None]:
        reason = next((told[name].because for name in unknown if told[name].because), None)
        found.append(
            Caveat(
                f"Syncs of {wording.listing(unknown)} were not counted: whether a flush reached the disk is unknown.",
                reason or "",
            )
        )
    return found


def _of_repeats(source: TaskSource) -> list[Caveat]:
    """Of servers whose datagrams were lost or late."""
    told = {name: repeated_requests(source, name) for name in source.names}
    return [
        Caveat(
            f"{name}: {repeated:,} of {asked:,} requests got no answer in time and were sent again.",
            "Over UDP a client waits 0.1 s or more before it sends a request again. So these times are also those of "
            "lost or late datagrams, not of the server's work alone.",
        )
        for name, (repeated, asked) in told.items()
        if repeated
    ]


def _of_caches(source: TaskSource) -> list[Caveat]:
    head, of_machine = source.head, memory_bytes(source.disclosure)
    found = []
    bonnie = head.plan.scaled_bonnie
    if BONNIE in head.tasks and of_machine is not None and bonnie.all_bytes < 2 * of_machine:
        found.append(
            Caveat(
                "What Bonnie writes is smaller than twice the memory: caches answer most requests.",
                f"{bonnie.size_mib:,} MB, and {of_machine // MIB:,} MB of memory.",
            )
        )
    if not head.plan.drop_caches and head.scenarios:
        found.append(
            Caveat(
                "Cold means a fresh session: the machine's page cache kept what it had.",
                "drop_caches in the plan drops it before each step; the original's machines were started anew.",
            )
        )
    return found


def methodology(source: TaskSource) -> tuple[Fact, ...]:
    """Return how it was made, line by line."""
    head, plan = source.head, source.head.plan
    bonnie = plan.scaled_bonnie
    lines = [
        Fact(
            "Runs",
            f"{wording.plural(len(head.order), 'run')}, {plan.order}; a server is started anew for each.",
        ),
        Fact("Tasks of a run", wording.listing(head.tasks)),
        Fact("Client", f"One, on {wording.cpu_set(head.cpus)}, with the cache of a workstation."),
        Fact(
            "Times",
            "Elapsed, user and system seconds of the client's threads, as of `time`. Making and ending the session is "
            "no part of them.",
        ),
        Fact(
            "Cold and warm",
            "Cold: in a fresh session, "
            + (
                "with the machine's page cache dropped before. "
                if plan.drop_caches
                else "caches of the machine kept. "
            )
            + "Warm: once more in the same session, so that the client's cache may answer.",
        ),
        Fact(
            "Comparison",
            "Speed is 1 / elapsed time. Each repetition is one observation; three configurations or more pool their "
            "noise, step by step. Claims of all steps and pairs are corrected together (Holm).",
        ),
        Fact("Names", NO_RESULT),
    ]
    if BONNIE in head.tasks:
        told = (
            f"{bonnie.size_mib:,} MB, chunks of {bonnie.chunk_bytes:,} bytes, {bonnie.seeks:,} seeks by "
            f"{wording.plural(bonnie.seekers, 'seeker')}."
        )
        if bonnie.clients > 1:
            told += f" {bonnie.clients} at once, each with a file of its own; a row is of all together."
        lines.append(Fact("Bonnie", told))
    lines += [Fact(name.capitalize(), scenario.description) for name, scenario in head.scenarios.items()]
    return tuple(lines)


def lead_words(step: Step) -> str:
    """Return `1.4 times as fast as b (1.2 to 1.6)`; empty where nobody leads."""
    lead = step.lead
    if lead is None:
        return ""
    return f"{ratio(lead.ratio)} times as fast as {lead.next} ({ratio(lead.low)} to {ratio(lead.high)})"


def ratio(value: float) -> str:
    """Return a ratio with two decimals where it is small: `1.04`, `2.3`, `14`."""
    return f"{value:.2f}" if value < 1.95 else wording.ratio(value)


def _with_lead(step: Step) -> str:
    return f"{step.label} {lead_words(step)}"


def _untold(step: Step) -> str:
    slower = beaten(step.gaps)
    first = [name for name in step.times if name not in slower]
    return (
        f"{step.label} ({wording.listing(first)} not separated)" if slower and len(first) > 1 else step.label
    )


def _named(texts: Sequence[str]) -> str:
    more = len(texts) - MOST_NAMED
    return "; ".join(texts[:MOST_NAMED]) + (f"; and {more} more" if more > 0 else "") + "."


def _leads(step: Step, name: str) -> bool:
    return step.lead is not None and step.lead.winner == name


def _fewest(steps: Sequence[Step]) -> int:
    return min(len(runs) for step in steps for runs in step.times.values())
