"""The input that others need to repeat the experiment: plan, suite, command, seed and software."""

from __future__ import annotations

from typing import Any

import tomli_w

from serverdyno import wording
from serverdyno.plan.model import Suite
from serverdyno.report.model import DisclosedText, Disclosure, Fact
from serverdyno.report.source import Source

NOT_RECORDED = "not recorded"
BY_LOAD = (
    "`dyno load` with the URL, clients and length of this experiment. A suite file can't express the other settings "
    "of this load."
)


def reproduce(source: Source) -> Disclosure:
    """Return the facts, then the texts of plan and suite."""
    head = source.head
    software: dict[str, Any] = source.disclosure.get("host", {}).get("software", {})
    servers = source.disclosure.get("servers", {})
    versions = [
        f"{name}: {described.get('version') or NOT_RECORDED}" + _package(described)
        for name, described in servers.items()
    ]
    scale = "" if head.scale == 1 else f" --scale {head.scale:g}"
    data_plane = ", ".join(
        f"{software[key]}"
        for key in ("data_plane_version", "data_plane_profile", "data_plane_target")
        if software.get(key)
    )
    suites = [(suite.name, as_toml(suite, f"Suite {suite.name}, as run.")) for suite in head.suites]
    only = " --suite suite.toml" if len(suites) == 1 else ""
    if only and head.suite.ends_when_done and scale:
        scale = " --scale 1"  # the recorded suite has the sizes of the scale in force
    facts = [
        Fact("Command", f"dyno run plan.toml{only}{scale}" if all(text for _, text in suites) else BY_LOAD),
        Fact("Tool", f"Serverdyno {head.tool_version}, commit {software.get('commit') or NOT_RECORDED}"),
        Fact(
            "Binary",
            f"{data_plane or NOT_RECORDED}; SHA-256 {software.get('data_plane_sha256') or NOT_RECORDED}",
        ),
        Fact("Servers", f"{'; '.join(versions)}." if versions else NOT_RECORDED),
        Fact("Documents", _documents(source, software)),
        Fact(
            "Seed",
            (
                f"{head.seed}; each load level derives its own seed from this seed, the repetition and the "
                "level's number."
            ),
        ),
        Fact("Order", f"{head.plan.order}: {_order(source)}"),
    ]
    documents = [DisclosedText("plan.toml", source.plan_text)] if source.plan_text else []
    documents += [
        DisclosedText("suite.toml" if only else f"{name}.toml", text) for name, text in suites if text
    ]
    return Disclosure("Reproduce this experiment", tuple(facts), tuple(documents))


def as_toml(suite: Suite, comment: str) -> str:
    """Return a suite as a TOML file with one comment line; empty if TOML can't express it, as for `dyno load`."""
    document = suite.model_dump(mode="json", exclude_defaults=True)
    if _has_unset(document):
        return ""
    # Defaults are included for numbers that define the load or its certainty.
    said = {key: value for key, value in suite.model_dump(mode="json").items() if key in suite.certainty}
    keys = [*Suite.model_fields, *Suite.tables()]
    ordered = {key: said.get(key, document.get(key)) for key in keys if key in said or key in document}
    return f"# {comment}\n\n{tomli_w.dumps(ordered)}"


def _has_unset(table: dict[str, Any]) -> bool:
    """Return whether a parameter is None, which TOML can't express."""
    return any(value is None or (isinstance(value, dict) and _has_unset(value)) for value in table.values())


def _package(described: Any) -> str:
    package = described.get("package") if isinstance(described, dict) else None
    return f" (package {package})" if package else ""


def _documents(source: Source, software: dict[str, Any]) -> str:
    if not source.head.suite.work.uses_documents:
        return "Each client writes its own files, whose content depends on the workload and the seed."
    digest = software.get("documents_digest")
    return f"Document tree with digest {digest or NOT_RECORDED}; `dyno tree DIRECTORY` creates it."


def _order(source: Source) -> str:
    runs = [f"{key.configuration} r{key.repetition}" for key in source.head.order[:8]]
    more = len(source.head.order) - len(runs)
    return ", ".join(runs) + (f" and {wording.plural(more, 'more run')}" if more > 0 else "") + "."
