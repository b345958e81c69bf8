"""The steps of a session: requests that one logged-in user makes in order.

The data plane (`crates/engine/src/web/script.rs`) validates templates and regular expressions for this module.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from serverdyno import _native
from serverdyno.plan.protocols.escapes import escaped
from serverdyno.plan.protocols.http_request import Headers, Statuses, header_pairs
from serverdyno.plan.protocols.model import Model

MOST_STEPS = 250
REPLACED_OPTIONS = ("--expect-status", "--method", "--data", "--content-type", "--session")
"""Options that the keys of a session's steps replace."""


class Take(Model):
    """The source of a value in an answer. Exactly one of the four fields is set."""

    header: str | None = Field(
        default=None, description="The name of a header. If there are several, the first one counts."
    )
    cookie: str | None = Field(
        default=None,
        description="The name of a cookie in `Set-Cookie`. If there are several, the last one counts.",
    )
    regex: str | None = Field(
        default=None,
        description="A regular expression (syntax of Rust's crate regex) to find in the body; its first "
        "group is the value.",
    )
    json_pointer: str | None = Field(
        default=None,
        description="A JSON pointer (RFC 6901) to a string, a number or a Boolean in the body.",
    )

    @model_validator(mode="after")
    def is_one(self) -> Self:
        if len(self.section()) != 1:
            raise ValueError("needs exactly one of header, cookie, regex and json_pointer")
        return self

    @property
    def searches_body(self) -> bool:
        return self.regex is not None or self.json_pointer is not None

    def section(self) -> dict[str, str]:
        """Return the source for a level's document."""
        return self.model_dump(exclude_none=True)


class Step(Model):
    """One request of a session.

    `path`, values of `headers` and `body` may contain `${name}`, a value that an earlier step extracted.
    """

    name: str = Field(description="Name of the step in reports.")
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] = Field(
        default="GET", description="The method."
    )
    path: Annotated[str, AfterValidator(escaped)] = Field(
        description="The path on the server, with its query. Letters outside ASCII are sent percent-encoded, in UTF-8."
    )
    headers: Headers = Field(default=[], description="Further headers, each `Name: value`.")
    body: str | None = Field(default=None, description="The body, as text.")
    think_s: float = Field(
        default=0, ge=0, le=86_400, description="Time that the user waits before this request."
    )
    status: Statuses = Field(default=[], description="Expected statuses of answers. Default: 200 to 299.")
    body_bytes: int | None = Field(default=None, ge=0, description="Expected size of the body of the answer.")
    take: dict[str, Take] = Field(
        default={}, description="Values to extract from the answer, by the name that later steps use."
    )

    @property
    def asks_coding(self) -> bool:
        """Return whether the step asks for compressed answers."""
        return any(name.lower() == "accept-encoding" for name, _ in header_pairs(self.headers))

    def section(self) -> dict[str, Any]:
        """Return the step for a level's document."""
        return {
            "name": self.name,
            "method": self.method,
            "path": self.path,
            "headers": header_pairs(self.headers),
            "body": self.body,
            "think_s": self.think_s,
            "status": self.status,
            "bytes": self.body_bytes,
            "take": {name: take.section() for name, take in self.take.items()},
        }


def sections(steps: list[Step]) -> list[dict[str, Any]]:
    return [step.section() for step in steps]


def checked(steps: list[Step]) -> list[Step]:
    """Return the steps. Raises ValueError with every problem that the data plane finds."""
    if steps and (problems := _native.session_problems(json.dumps(sections(steps)))):
        raise ValueError("; ".join(problems))
    return steps


def described(steps: list[Step]) -> str:
    """Describe the requests of a session, for the methodology."""
    think_s = sum(step.think_s for step in steps)
    thinks = f", {think_s:g} s of think time" if think_s else ""
    listed = "; ".join(f"{step.name}: {step.method} {step.path}" for step in steps)
    return (
        f"A session of {len(steps)} steps{thinks}, repeated by each thread of a client ({listed}). A step "
        "that fails ends the session: the next request is the first step."
    )


def advice(steps: list[Step], fault: str, example: str, general: str | None) -> str | None:
    """Return a remedy in the session for this error of the check before load; None if the session is not the cause.

    `example` ends with the name of a value if the fault concerns a value. `general`: the remedy for any request.
    """
    value = example.rpartition(": ")[2]
    if fault == "missing_value":
        return _where_to_take(value, [step for step in steps if value in step.take])
    if fault == "unusable_value":
        return (
            f"See where the session sends ${{{value}}}: it has at most 4 KiB, a path begins with / or is a URL of the "
            "same host, and a path has no spaces. ${NAME:url} percent-encodes it."
        )
    if fault == "error_status":
        own = "If this status is right, name it in the step: status = [...]. curl -i shows the whole answer."
        applies = general and not any(option in general for option in REPLACED_OPTIONS)
        return f"{general} {own}" if applies else own
    return None


def _where_to_take(value: str, steps: list[Step]) -> str:
    """Return what to check if an answer lacks a value. `steps`: the steps that extract it."""
    places = [
        f"step {step.name!r} takes {value} from {source}: {text!r}"
        for step in steps
        for source, text in step.take[value].section().items()
    ]
    parts = [
        f"In the session, {' and '.join(places)}.",
        "Compare this with the answer to that step (curl -i).",
    ]
    if any(step.asks_coding and step.take[value].searches_body for step in steps):
        parts.append(
            "The step asks for compressed answers, which are searched as they come: leave Accept-Encoding out."
        )
    parts.append("After a wrong password, many servers answer 200 with another page.")
    return " ".join(parts)
