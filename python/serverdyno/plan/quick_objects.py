"""The plan behind `dyno objects`: one bucket of the user's server, and a suite built from a few options."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field
from pydantic.fields import FieldInfo

from serverdyno.errors import PlanError
from serverdyno.plan import protocols
from serverdyno.plan.check_suite import suite_problems
from serverdyno.plan.document import Problem, check_model
from serverdyno.plan.expand import levels
from serverdyno.plan.locate import KeyPath
from serverdyno.plan.model import Bounds, GeneratorPlan, Plan, Suite
from serverdyno.plan.open_load import OpenLoad
from serverdyno.plan.protocols.access import ANYBODY, Addressing
from serverdyno.plan.protocols.model import Model
from serverdyno.plan.protocols.objects import MOST_BYTES, OBJECTS, ObjectsSettings
from serverdyno.plan.protocols.options import Option, words_of
from serverdyno.plan.protocols.s3 import S3, S3Settings
from serverdyno.plan.quick_options import (
    Places,
    by_option,
    filled,
    low_bounds,
    names_of,
    open_problems,
    ramp_s,
    read_rates,
    settings_of,
    shown_fields,
)
from serverdyno.plan.validate import cpu_problems, is_loopback, size_problem, url_problem
from serverdyno.units import MIB

NAME = "objects"
CLOSED = {"clients": "1,4,16", "length": "3s", "repetitions": "1"}
OPEN, TRIAL = {"clients": "64", "length": "10s"}, {"clients": "64", "length": "5s"}
"""Defaults with --rate, and with --objective."""
SHOWN = {
    "clients": f"{CLOSED['clients']}; with --rate or --objective {OPEN['clients']}",
    "length": f"{CLOSED['length']}; with --rate {OPEN['length']}; with --objective {TRIAL['length']}",
    "repetitions": CLOSED["repetitions"],
}
MIX = re.compile(r"[a-z_]+=\d{1,6}(,[a-z_]+=\d{1,6})*")
_PLACES: Places = (
    (Suite, Suite, ()),
    (Suite, OpenLoad, ("open",)),
    (Plan, Plan, ()),
    (Suite, S3Settings, (S3.section,)),
    (Suite, ObjectsSettings, (OBJECTS.section,)),
    (Plan, Bounds, ("servers", 0, "bounds")),
    (Plan, GeneratorPlan, ("generator",)),
)
SETTINGS = {name: setting for name, setting in settings_of(_PLACES).items() if name != "requests"}
_OPTIONS: dict[KeyPath, str] = {
    (S3.section,): "--payload or --checksum",
    (OBJECTS.section,): "--part-bytes or --size",
    (OBJECTS.section, "weights"): "--mix",
    (OBJECTS.section, "size"): "--size",
    ("servers", 0, "url"): "URL",
    ("servers", 0, "bounds"): "--max-rate",
    ("servers", 0, "settings", "region"): "--region",
} | names_of(SETTINGS)


class ObjectsOptions(Model):
    """The values on the command line that are not fields of a suite or plan; None if not given."""

    size_bytes: Annotated[int, Option(("--size",))] = Field(
        default=MIB, ge=0, le=MOST_BYTES, description="Size of each object in bytes."
    )
    mix: str | None = Field(
        default=None,
        description="Weights of the operations. Default: get=45,put=15,head=30,delete=10. Further operations: list, "
        "copy, get_range and delete_many.",
    )
    region: str | None = Field(
        default=None,
        description="Region of the bucket. Default: AWS_REGION, the AWS profile's, or us-east-1.",
    )
    addressing: Addressing = Field(
        default="path", description="Where requests name the bucket: in the path, or in front of the host."
    )
    ca_file: Path | None = Field(
        default=None, description="Trust the authorities in this file (PEM) instead of the system's."
    )
    insecure: Annotated[bool, Option(("--insecure", "-k"))] = Field(
        default=False, description="Accept any certificate; the report mentions this."
    )

    def server_settings(self) -> dict[str, Any]:
        """Return the settings of the server that are not defaults."""
        trust = ANYBODY if self.insecure else str(self.ca_file.absolute()) if self.ca_file else None
        found = {"region": self.region, "trust": trust, "addressing": self.addressing}
        return {name: value for name, value in found.items() if value not in (None, "path")}

    def objects(self) -> dict[str, Any]:
        """Return the fields of the section `objects` that these options set."""
        found: dict[str, Any] = {"size": {"fixed": self.size_bytes}}
        if self.mix is not None and MIX.fullmatch(self.mix):
            found["weights"] = {
                name: int(weight) for name, _, weight in (part.partition("=") for part in self.mix.split(","))
            }
        return found

    def problems(self, url: str) -> Iterator[str]:
        """Yield options that exclude each other or don't apply to this URL."""
        if self.mix is not None and not MIX.fullmatch(self.mix):
            yield f"--mix: {self.mix!r} is not a list like get=45,put=15"
        if self.insecure and self.ca_file is not None:
            yield "--insecure: accepts any certificate, so --ca-file has no effect"
        if (self.insecure or self.ca_file) and not url.startswith(f"{S3.secure_scheme}:"):
            yield f"--insecure and --ca-file: require a URL that begins with {S3.secure_scheme}://"


def fields() -> dict[str, FieldInfo]:
    """Return the fields behind all options, by option name, with the defaults of `dyno objects`."""
    return shown_fields(SETTINGS, SHOWN) | ObjectsOptions.model_fields


def objects_plan(url: str, given: Mapping[str, Any]) -> tuple[Plan, Suite, str]:
    """Return the plan, its suite, and the command as the plan's text. `given` contains the options' texts by name.

    Raises PlanError with every mistaken option.
    """
    url = protocols.normal_url(url)
    own = {"objective": TRIAL, "rate": OPEN}
    usual = CLOSED | next((texts for name, texts in own.items() if name in given), {})
    texts = {name: {**usual, **given}[name] for name in fields() if name in given or name in usual}
    values, problems = read_rates(texts, fields())
    if problems:
        raise PlanError(f"dyno {NAME}", problems)
    options = ObjectsOptions(
        **{name: value for name, value in values.items() if name in ObjectsOptions.model_fields}
    )
    problems += [*_url_problems(url, texts), *open_problems(texts), *options.problems(url)]
    suite, unsound = check_model(Suite, _suite(values, options))
    plan, unsound_too = check_model(Plan, _plan(url, values, options))
    problems += [*_by_option(unsound), *_by_option(unsound_too)]
    if suite is not None:
        problems += _by_option(suite_problems(suite))
    if suite is not None and plan is not None:
        problems += low_bounds(suite, plan)
    if plan is not None:
        problems += _by_option(cpu_problems(("generator", "cpus"), plan.generator.cpus))
    if suite is not None and plan is not None and not problems:
        too_many = size_problem(dict(enumerate(plan.servers)), plan.ends_with, len(levels(suite)))
        problems += [] if too_many is None else [f"--clients: {too_many.message}"]
    if suite is None or plan is None or problems:
        raise PlanError(f"dyno {NAME}", problems)
    words = (word for name, field in fields().items() for word in words_of(name, field, texts.get(name)))
    return plan, suite, f"# Made by: {shlex.join(['dyno', NAME, url, *words])}\n"


def _url_problems(url: str, texts: Mapping[str, Any]) -> Iterator[str]:
    if found := re.match(r"http(s?)://([^/]*)/*(.*)", url, re.DOTALL):
        yield f"URL: write the endpoint and the bucket as s3{found[1]}://{found[2]}/{found[3] or 'BUCKET'}"
        return
    wrong = url_problem(url, S3.schemes) or S3.server_problem(S3Settings(), None, url, {})
    if wrong is not None:
        yield f"URL: {wrong}"
    elif "max_rate" not in texts and not is_loopback(url):
        yield f"--max-rate: required, because the target is not on this machine{_taken_for_host(url)}"


def _taken_for_host(url: str) -> str:
    """Return a hint if the URL seems to begin with a bucket, as for the AWS CLI; otherwise empty text."""
    found = re.match(r"(s3s?)://([\w-]+)(/.*|$)", url)
    if found is None:
        return ""
    return f" ({found[2]} was taken for the host: a bucket is {found[1]}://HOST:PORT/{found[2]}{found[3]})"


def _suite(values: Mapping[str, Any], options: ObjectsOptions) -> dict[str, Any]:
    ramp = ramp_s(float(values["length"]))
    document = {
        "name": NAME,
        "title": "Objects of one bucket",
        "source": f"the options of `dyno {NAME}`",
        "workload": NAME,
        "ramp_up_s": ramp,
        "ramp_down_s": ramp,
        "leave_after_errors": None,
        OBJECTS.section: options.objects(),
    }
    return filled(document, Suite, values, SETTINGS)


def _plan(url: str, values: Mapping[str, Any], options: ObjectsOptions) -> dict[str, Any]:
    server: dict[str, Any] = {"server": "external", "name": "target", "url": url}
    if settings := options.server_settings():
        server["settings"] = settings
    if "max_rate" in values:
        server["bounds"] = {"max_clients": max(1, *values["clients"]), "max_length_s": values["length"]}
    document = {"name": NAME, "title": f"Load on {url}", "suite": NAME, "servers": [server]}
    return filled(document, Plan, values, SETTINGS)


def _by_option(problems: Iterable[Problem]) -> Iterator[str]:
    return (f"{option}: {message}" for option, _, message in by_option(problems, _OPTIONS))
