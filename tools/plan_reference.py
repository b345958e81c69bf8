"""Write docs/plan.md, docs/suites.md and the JSON schemas of plans and suites from their models and the suites.

Run `python tools/plan_reference.py`. A test checks that the files are up to date.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from generated import write_or_check
from pydantic import BaseModel

from serverdyno.plan import protocols, suites
from serverdyno.plan.model import Bounds, GeneratorPlan, Plan, ServerPlan, Suite, ThreadStep
from serverdyno.plan.open_load import OpenLoad
from serverdyno.plan.protocols.bonnie import BonnieSettings
from serverdyno.plan.protocols.contention import ContentionSettings
from serverdyno.plan.protocols.failover import FailoverSettings
from serverdyno.plan.protocols.http_request import RequestSettings
from serverdyno.plan.protocols.metadata import MetadataSettings
from serverdyno.plan.protocols.objects import ListedSize, LogNormalSize, Size
from serverdyno.plan.protocols.scenario import LocalFile, OfClients, OnFile, OnTree, Scenario, Tree, TreeFiles
from serverdyno.plan.protocols.steps import Step, Take
from serverdyno.plan.protocols.streams import StreamsSettings
from serverdyno.plan.protocols.tls import TlsSettings
from serverdyno.plan.testbed import Subnet

DOCS = Path(__file__).resolve().parent.parent / "docs"
HEAD = """\
# Plans and suites

Made by `python tools/plan_reference.py` from the models that check a plan; a test keeps it true. `dyno plan check PLAN`
names every mistake at once, with its line. `dyno servers NAME` lists the settings of a server, `dyno suites` the suites
that come with Serverdyno. [Your own suite](write-a-suite.md) has an example.

For completion and errors while you type, name the schema in the first line of the file, as editors with a TOML language
server read it:

```toml
#:schema https://raw.githubusercontent.com/serverdyno/serverdyno/main/docs/plan.schema.json
```

"""
SUITES_HEAD = """\
# Suites

Made by `python tools/plan_reference.py` from the suites that come with Serverdyno; a test keeps it true. The command
`dyno suite show NAME` prints all parameters of a suite, and how well each is known. [Workloads](workload.md) says what
clients do, and that these are [not the original programs](workload.md#names).

| suite | clients | threads per client | what it is |
|---|---|---|---|
"""
SHOWN_CLIENTS = 6
"""Maximum length of the list of clients shown per suite; of a longer one, the first three and the last are shown."""


def main() -> None:
    """Write the files, or check them."""
    write_or_check({DOCS / name: text for name, text in files().items()})


def files() -> dict[str, str]:
    """Return the text of each file by its name."""
    return {
        "plan.md": HEAD + "\n".join(_lines()).rstrip() + "\n",
        "suites.md": SUITES_HEAD + "".join(map(_suite_row, suites.names())),
        "plan.schema.json": _json(plan_schema()),
        "suite.schema.json": _json(suite_schema()),
    }


def _suite_row(name: str) -> str:
    suite = suites.load(name)
    clients = [str(number) for number in suite.clients]
    shown = ", ".join(clients)
    if len(clients) > SHOWN_CLIENTS:
        shown = f"{', '.join(clients[:3])} ... {clients[-1]}"
    threads = str(suite.threads)
    threads += "".join(f", from {step.clients} clients on {step.threads}" for step in suite.threads_from)
    return f"| `{name}` | {shown} | {threads} | {suite.title} |\n"


def plan_schema() -> dict[str, Any]:
    """Return the JSON schema of a plan's file, without the settings and factors that each driver defines."""
    schema = _schema(Plan)
    # A suite may also be given as a path, which the pattern of names forbids.
    for part in (*schema["properties"]["suite"]["anyOf"], schema["properties"]["suites"]["items"]):
        part.pop("pattern", None)
    return schema


def suite_schema() -> dict[str, Any]:
    """Return the JSON schema of a suite's file, with the tables of protocols and kinds of work."""
    schema = _schema(Suite)
    definitions = schema.setdefault("$defs", {})
    for name, model in Suite.tables().items():
        table = model.model_json_schema()
        definitions.update(table.pop("$defs", {}))
        schema["properties"][name] = table
    return schema


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **model.model_json_schema()}


def _json(schema: Mapping[str, Any]) -> str:
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def _lines() -> Iterator[str]:
    yield "## A plan"
    yield ""
    tables = {"servers": "`[[servers]]`", "generator": "`[generator]`", "testbed": "`[[testbed.subnets]]`"}
    yield from _table(Plan, {key: f"{title}, see below" for key, title in tables.items()})
    yield from _titled("### `[generator]`: where the load is made", GeneratorPlan)
    yield from _titled("### `[[testbed.subnets]]`: hosts on this machine that make it", Subnet)
    yield from _titled("### `[[servers]]`: what is measured", ServerPlan)
    yield from _titled("### `bounds` of a server that you run on another host", Bounds)
    yield "## A suite"
    yield ""
    yield from _table(Suite, {})
    yield from _titled("### `threads_from`: more threads from a number of clients on", ThreadStep)
    yield from _titled("### `[open]`: operations that come at a rate of their own", OpenLoad)
    for name, having in sorted(protocols.sections().items()):
        yield from _titled(f"### `[{name}]`", having.settings_type)
    yield from _titled("### `[http.tls]`: TLS as clients offer it", TlsSettings)
    yield from _titled(
        "### `[http.request]`: what clients ask for, and which answers are right", RequestSettings
    )
    yield from _titled("### `[files.streams]`: what the workload streams does", StreamsSettings)
    yield from _titled("### `[files.metadata]`: what the workload metadata does", MetadataSettings)
    yield from _titled(
        "### `[files.contention]`: what clients of the workload contention share", ContentionSettings
    )
    yield from _titled(
        "### `[files.failover]`: what clients of the workload failover do, and what is taken away",
        FailoverSettings,
    )
    yield from _titled("### `[files.bonnie]`: the file and the seeks of the workload bonnie", BonnieSettings)
    yield from _titled("### `[files.scenario]`: what the workload scenario does, step by step", Scenario)
    yield from _titled("### `[files.scenario.trees.NAME]`: a tree of files", Tree)
    yield from _titled("### `files` of a tree", TreeFiles)
    yield from _titled("### `[files.scenario.local.NAME]`: a file of this machine", LocalFile)
    for step in (*get_args(OnTree), *get_args(OnFile), *get_args(OfClients)):
        [do] = get_args(step.model_fields["do"].annotation)
        yield from _titled(f"### `[[files.scenario.steps]]` with `do` `{do}`", step)
    yield from _titled("### `size` of objects, one of these", Size)
    yield from _titled("### `listed` sizes", ListedSize)
    yield from _titled("### `lognormal` sizes", LogNormalSize)
    yield from _titled("### `[[documents.steps]]`: a request of a session", Step)
    yield from _titled("### `take` of a step: where a value stands, one of these", Take)


def _titled(title: str, model: type[BaseModel]) -> Iterator[str]:
    yield title
    yield ""
    yield from _table(model, {})


def _table(model: type[BaseModel], instead: Mapping[str, str]) -> Iterator[str]:
    yield "| key | values | default | what it says |"
    yield "|---|---|---|---|"
    schema = model.model_json_schema()
    for name, field in model.model_fields.items():
        if field.exclude or name not in schema["properties"]:
            continue
        if field.description is None:
            raise ValueError(f"{model.__name__}.{name} has no description")
        told = schema["properties"][name]
        values = instead.get(name) or _values(told, schema.get("$defs", {}))
        default = "needed" if field.is_required() else f"`{json.dumps(told.get('default'))}`"
        if instead.get(name) or default == "`null`":
            default = "" if not field.is_required() else "needed"
        yield f"| `{name}` | {values} | {default} | {field.description} |"
    yield ""


def _values(told: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """Return the allowed values in words."""
    if "anyOf" in told:
        parts = [_values(part, definitions) for part in told["anyOf"] if part.get("type") != "null"]
        return " or ".join(parts)
    if "$ref" in told:
        return "a table"
    if "enum" in told or "const" in told:
        return ", ".join(f"`{json.dumps(value)}`" for value in told.get("enum", [told.get("const")]))
    if told.get("type") == "array":
        return f"list of {_values(told.get('items', {}), definitions)}"
    kind = {
        "integer": "whole number",
        "number": "number",
        "string": "text",
        "boolean": "`true` or `false`",
        "object": "table",
    }.get(told.get("type", ""), "any value")
    bounds = [
        f"{words} {told[key]:,}"
        for key, words in (
            ("minimum", "at least"),
            ("exclusiveMinimum", "above"),
            ("maximum", "at most"),
            ("exclusiveMaximum", "below"),
        )
        if key in told
    ]
    return " ".join([kind, ", ".join(bounds)]).strip()


if __name__ == "__main__":
    main()
