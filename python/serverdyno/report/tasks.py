"""From an experiment of tasks to its report: figures first, then tables, then sentences on them."""

from __future__ import annotations

from dataclasses import fields

from serverdyno import clean, published
from serverdyno.errors import DynoError, UserError
from serverdyno.report.figures.raw import RawTable
from serverdyno.report.figures.steps import TaskSource, compared
from serverdyno.report.model import DisclosedText, Disclosure, Fact, Section, StepsAnswer, TaskReport
from serverdyno.report.parts import numbered
from serverdyno.report.sections import steps as tables
from serverdyno.report.subjects.disclosure import disclosure
from serverdyno.report.words import steps as words
from serverdyno.tasks.bonnie import BONNIE
from serverdyno.tasks.experiment import StepRecord, TaskExperiment

_COLUMNS = tuple(name for name in StepRecord.model_fields if name != "requests")


def source_of(experiment: TaskExperiment) -> TaskSource:
    """Return what a report is made from: all that can be read."""
    records, failures, problems = experiment.records()
    damaged = [f"{problem}" for problem in problems]
    disclosed, plan_text = {}, ""
    try:
        disclosed, plan_text = experiment.disclosure(), experiment.plan_text
    except DynoError as error:
        damaged.append(f"{error}")
    return TaskSource(experiment.head, records, failures, disclosed, plan_text, tuple(damaged))


def build(source: TaskSource) -> TaskReport:
    """The report. Text from records, notes and servers is cleaned here, for every view."""
    source = TaskSource(
        source.head,
        source.records,
        source.failures,
        **{
            each.name: clean.everything(getattr(source, each.name))
            for each in fields(source)
            if each.name not in ("head", "records", "failures")
        },
    )
    steps = compared(source)
    summary, *sections, bed = numbered(
        [
            tables.summary(source, steps),
            *tables.sections(source, steps, _published(source)),
            Section("testbed", "The testbed", text=(_machine(source),)),
        ]
    )
    bonnie = [tables.rows_of_bonnie(source)] if BONNIE in source.head.tasks else []
    return TaskReport(
        title=source.head.plan.title,
        particulars=_particulars(source),
        answer=StepsAnswer(
            verdict=words.verdict(source, steps),
            sure=words.sure(source, steps),
            limit="",
            gaps="",
            figures=(),
            caveats=words.caveats(source, steps),
            by_step=words.by_step(source, steps),
        ),
        summary=summary,
        findings=words.findings(source, steps),
        methodology=words.methodology(source),
        sections=tuple(sections),
        testbed=bed,
        disclosure=(*bonnie, *disclosure(source.disclosure)),
        reproduce=_reproduce(source),
        raw=(_raw(source),),
        source=source,
        steps=tuple(steps),
    )


def _published(source: TaskSource) -> published.PublishedReport | None:
    """That of the plan; None where this version has it not."""
    name = source.head.plan.published
    try:
        return None if name is None else published.load(name)
    except UserError:
        return None


def _particulars(source: TaskSource) -> tuple[Fact, ...]:
    head = source.head
    return (
        Fact("Experiment", head.plan.name),
        Fact("Tasks", ", ".join(head.tasks)),
        Fact("Made", f"{head.created:%Y-%m-%d %H:%M %Z}"),
        Fact("Tool", f"Serverdyno {head.tool_version}"),
    )


def _machine(source: TaskSource) -> str:
    """Where client and servers ran."""
    cpu = source.disclosure.get("host", {}).get("cpu", {})
    model = cpu.get("model") if isinstance(cpu, dict) else None
    places = "; ".join(
        f"{each.name} on CPUs {', '.join(map(str, each.cpus)) or 'of its user'}"
        for each in source.head.configurations
    )
    client = ", ".join(map(str, source.head.cpus))
    return f"One machine{f', {model}' if model else ''}. The client on CPUs {client}; {places}."


def _reproduce(source: TaskSource) -> Disclosure:
    head = source.head
    software = source.disclosure.get("host", {}).get("software", {})
    servers = source.disclosure.get("servers", {})
    versions = "; ".join(
        f"{name}: {found.get('version') or 'not recorded'}" for name, found in servers.items()
    )
    facts = (
        Fact("Command", f"dyno run plan.toml --scale {head.plan.scale:g}"),
        Fact("Tool", f"Serverdyno {head.tool_version}, commit {software.get('commit') or 'not recorded'}"),
        Fact("Servers", versions or "not recorded"),
        Fact("Seed", f"{head.plan.seed}; each repetition has the next one, for all configurations alike."),
        Fact("Order", ", ".join(f"{run.configuration} r{run.repetition}" for run in head.order)),
    )
    documents = (DisclosedText("plan.toml", source.plan_text),) if source.plan_text else ()
    return Disclosure("Reproduce this test", facts, documents)


def _raw(source: TaskSource) -> RawTable:
    """One row a step of a run; requests by name in one more column."""
    rows = tuple(
        (
            run.number,
            run.configuration,
            run.repetition,
            task,
            *(getattr(step, name) for name in _COLUMNS),
            " ".join(f"{name}={count}" for name, count in step.requests.items()),
        )
        for (run, task), record in source.records.items()
        for step in record.steps
    )
    columns = ("run", "configuration", "repetition", "task", *_COLUMNS, "requests")
    return RawTable("steps", "Each step of each run", columns, rows)
