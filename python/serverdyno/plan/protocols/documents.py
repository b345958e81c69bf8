"""Documents: each operation requests one document from a web server. Throughput is in requests/s."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from serverdyno import units, wording
from serverdyno.plan.protocols import steps
from serverdyno.plan.protocols.escapes import escaped
from serverdyno.plan.protocols.model import SectionModel
from serverdyno.plan.protocols.steps import MOST_STEPS, Step, checked, described, sections
from serverdyno.plan.protocols.work import Fact, LevelCounts, Terms, Work


def requests_per_s(record: LevelCounts) -> float:
    return record.operations / record.window_s


def mbit_received_per_s(record: LevelCounts) -> float:
    """Return the rate of all bytes that the clients received, including headers."""
    return units.mbit_per_s(record.bytes_in, record.window_s)


PATH_AND_WEIGHT = re.compile(r"(/[!\"$-~]*)(?:\s+(\d{1,9}))?")
MOST_PATHS = 250
MOST_PATHS_CHECKED = 20
TREE_REQUESTS = 100
"""Requests of the check before load: enough to reach existing documents, a missing one, and the dynamic page."""
DYNAMIC = "webbench-dynamic"
SESSION = "session"
Carrier = Literal["any", "cgi", "fastcgi", "in-process"]
CARRIED: dict[str, tuple[str, ...]] = {"in-process": ("in-process", "native")}
"""Values of a server's setting `dynamic` that satisfy a suite's `carrier`.

For any other carrier, the setting must equal the carrier's name.
"""


SHARES = ("dynamic_share", "secure_share", "dynamic_share_of_secure", "carrier")


class DocumentsSettings(SectionModel):
    """The requests of clients. `paths` contains `/path` or `/path weight`; by default, the URL's path."""

    paths: list[str] = Field(
        default=[],
        max_length=MOST_PATHS,
        description="For the workload url: the requested paths, each `/path` or `/path weight`. Letters "
        "outside ASCII are sent percent-encoded, in UTF-8. Default: the URL's path.",
    )

    steps: list[Step] = Field(
        default=[],
        max_length=MOST_STEPS,
        description="For the workload session: one user's requests in order, see docs/sessions.md.",
    )
    dynamic_share: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="For webbench-dynamic: share of all requests that ask for the dynamic page without TLS.",
    )
    secure_share: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="For webbench-dynamic: share of all requests that use TLS. Default: none.",
    )
    dynamic_share_of_secure: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="For webbench-dynamic: share of the TLS requests that ask for the dynamic page. "
        "Default: none.",
    )
    carrier: Carrier | None = Field(
        default=None,
        description="For webbench-dynamic: how every server must generate the dynamic page. any: as the "
        "server's settings say (default).",
    )

    @model_validator(mode="after")
    def _shares_fit(self) -> Self:
        if (self.dynamic_share or 0) + (self.secure_share or 0) > 1:
            raise ValueError("the sum of dynamic_share and secure_share is above 1")
        return self

    @field_validator("steps")
    @classmethod
    def are_steps(cls, listed: list[Step]) -> list[Step]:
        """Check that each step can be sent after the steps before it were answered."""
        return checked(listed)

    @field_validator("paths")
    @classmethod
    def are_paths(cls, paths: list[str]) -> list[str]:
        """Check that each entry is a path with an optional weight, and percent-encode it."""
        paths = [escaped(path) for path in paths]
        if wrong := [path for path in paths if not PATH_AND_WEIGHT.fullmatch(path)]:
            raise ValueError(
                f"not /path or /path weight: {', '.join(map(repr, wrong))}; a path begins with /, has no fragment "
                "(#...), and a blank in it is written %20"
            )
        if paths and not any(weight for _, weight in weighted(paths)):
            raise ValueError("every weight is zero")
        if sum(weight for _, weight in weighted(paths)) >= 1 << 32:
            raise ValueError("the sum of the weights is above 4,294,967,295")
        return paths

    def parameters(self) -> dict[str, Any]:
        """Return the parameters that shape the load: those that are set, and those that the workload requires."""
        paths = {"paths": self.paths} if self.paths else {}
        shares = {name: getattr(self, name) for name in SHARES}
        made = {"steps": sections(self.steps)} if self.steps else {}
        return paths | made | {name: value for name, value in shares.items() if value is not None}


def weighted(paths: list[str]) -> list[tuple[str, int]]:
    """Return each path with its weight, by default 1."""
    found = [match for path in paths if (match := PATH_AND_WEIGHT.fullmatch(path))]
    return [(match[1], int(match[2] or 1)) for match in found]


class Documents(Work[DocumentsSettings]):
    """Static documents, or URLs of a server."""

    name = "documents"
    workloads: ClassVar[Mapping[str, str]] = {
        "webbench-static": "The document root must contain the WebBench tree: `dyno tree DIRECTORY` writes "
        "it.",
        DYNAMIC: "The server must have the WebBench tree and the dynamic page, see docs/dynamic.md.",
        "url": "",
        SESSION: "The server must answer the steps of the suite, see docs/sessions.md.",
    }
    section = "documents"
    settings_type = DocumentsSettings
    uses_documents = True
    usage = "to measure a web server, use dyno load {url}"
    terms = Terms(
        unit="requests/s",
        column="requests_s",
        written=wording.rate,
        throughput=requests_per_s,
        second_unit="Mbit/s",
        second_column="mbit_s",
        second_title="Throughput in Mbit/s received (heads and bodies)",
        second_written=wording.significant,
        second=mbit_received_per_s,
        below_cache=False,
        operation="request",
        classes="request",
        throughput_meaning="Mbit/s include the headers and bodies of the responses that the clients received.",
    )

    def problems(
        self, settings: DocumentsSettings, workload: str, *, one_thread: bool, at_once: bool
    ) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield settings that belong to a workload other than the suite's."""
        del one_thread, at_once
        if settings.paths and workload != "url":
            yield ("documents", "paths"), "requires the workload url"
        if settings.steps and workload != SESSION:
            yield ("documents", "steps"), f"is only for the workload {SESSION}"
        if workload == SESSION and not settings.steps:
            yield ("documents", "steps"), f"is missing: the workload {SESSION} needs it"
        for name in SHARES:
            if workload != DYNAMIC and getattr(settings, name) is not None:
                yield ("documents", name), f"is only for the workload {DYNAMIC}"
        if workload == DYNAMIC and settings.dynamic_share is None:
            yield ("documents", "dynamic_share"), f"is missing: the workload {DYNAMIC} needs it"

    def start_spread_s(self, settings: DocumentsSettings, think_time_s: float) -> float:
        """Return the think time of a client between two requests, or in a whole session."""
        return think_time_s + sum(step.think_s for step in settings.steps)

    def check_operations(self, workload: str, settings: DocumentsSettings) -> int | None:
        """Return one request, each step of a session once, or enough requests to reach each kind of document."""
        if workload == SESSION:
            return len(settings.steps)
        return 1 if workload == "url" else TREE_REQUESTS

    def paths_of_check(self, settings: DocumentsSettings) -> Mapping[str, DocumentsSettings]:
        """Return the settings with each of several paths alone, because one request reaches only one path."""
        if len(settings.paths) < 2:
            return {}
        paths = [path for path, weight in weighted(settings.paths) if weight][:MOST_PATHS_CHECKED]
        return {path: settings.model_copy(update={"paths": [path]}) for path in paths}

    def advice(
        self, settings: DocumentsSettings, fault: str, example: str, general: str | None
    ) -> str | None:
        """Return a remedy for the steps of a session; None for other workloads."""
        return steps.advice(settings.steps, fault, example, general) if settings.steps else None

    def takes_open_load(self, workload: str) -> bool:
        """Return whether requests are independent of each other; the steps of a session are not."""
        return workload != SESSION

    def workload_section(self, workload: str, settings: DocumentsSettings) -> dict[str, Any]:
        """Return the workload, with its paths, steps or shares."""
        if workload == DYNAMIC:
            shares = ("dynamic_share", "secure_share", "dynamic_share_of_secure")
            return {"name": workload, **{name: getattr(settings, name) or 0.0 for name in shares}}
        if workload == SESSION:
            return {"name": workload, "steps": sections(settings.steps)}
        return {"name": workload, **({"paths": weighted(settings.paths)} if workload == "url" else {})}

    def server_problem(
        self, settings: DocumentsSettings, workload: str, server_settings: Mapping[str, Any]
    ) -> str | None:
        """Return which of the workload's requirements a server lacks: the dynamic page, or an additional TLS port."""
        if workload != DYNAMIC:
            return None
        carrier = settings.carrier or "any"
        has = server_settings.get("dynamic", "off")
        if has == "off" or (carrier != "any" and has not in CARRIED.get(carrier, (carrier,))):
            named = "cgi, fastcgi or in-process" if carrier == "any" else carrier
            return f"the suite requires a dynamic page generated by {named}, but dynamic is {has!r}"
        if settings.secure_share and not server_settings.get("also_clear", False):
            return (
                "some requests of this suite use TLS: "
                """set tls = "ecdsa-p256" and also_clear = true in the server's settings"""
            )
        return None

    def facts(self, settings: DocumentsSettings, client_cache: str | None) -> tuple[Fact, ...]:
        """Return the steps of a session, or the shares of the kinds of content; empty if the suite has neither."""
        del client_cache
        if settings.steps:
            return (("Requests", described(settings.steps)),)
        if settings.dynamic_share is None:
            return ()
        clear = f"{settings.dynamic_share:.0%} dynamic without TLS"
        of_it = f"{settings.dynamic_share_of_secure or 0:.0%} of it dynamic"
        secure = f", {settings.secure_share or 0:.0%} over TLS ({of_it})"
        page = "each dynamic page has 1,024 bytes, which must match its request"
        return (
            ("Requests", f"{clear}{secure if settings.secure_share else ''}, the others static; {page}."),
        )

    def content_of(self, workload: str, operation: str) -> str | None:
        """Return static, 404 or dynamic, each also over TLS; None if no page is dynamic."""
        if workload != DYNAMIC:
            return None
        name = operation.partition(" ")[2]
        kind, secure, _ = name.partition(" over TLS")
        content = "dynamic" if kind == "dynamic" else "404" if kind.startswith("404.") else "static"
        return f"{content} over TLS" if secure else content

    def verification(self, checked: str) -> str:
        """Return the sentence that says that lengths and digests of bodies are checked."""
        return f"The length of every body, and the content of {checked} of the bodies by digest."


DOCUMENTS = Documents()
