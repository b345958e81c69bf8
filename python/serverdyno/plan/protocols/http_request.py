"""Requests other than a plain GET: method, headers, body and authorization, and which answers count as correct.

Secrets are read from the environment when the load starts. No suite, plan or record contains them.
"""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from serverdyno import _native
from serverdyno.errors import UserError, refuse_pipe
from serverdyno.plan.protocols.model import Model, Spelled
from serverdyno.plan.protocols.options import Option

MOST_BODY_BYTES = 256 << 20


def header_pairs(headers: list[str]) -> list[tuple[str, str]]:
    """Return name and value of each header, for a level's document."""
    return [(name.strip(), value.strip()) for name, _, value in (each.partition(":") for each in headers)]


def _are_headers(headers: list[str]) -> list[str]:
    """Refuse, before anything is sent, headers that are malformed or that the data plane would refuse."""
    problems = [
        f"{header!r} is not Name: value"
        + ("; headers are not read from a file, so repeat the option" if header.startswith("@") else "")
        for header in headers
        if ":" not in header
    ]
    problems += _native.header_problems(header_pairs([header for header in headers if ":" in header]))
    if problems:
        raise ValueError("; ".join(problems))
    return headers


def _are_statuses(statuses: list[int]) -> list[int]:
    if wrong := [status for status in statuses if not 200 <= status <= 599]:
        raise ValueError(f"{wrong[0]} is not a status from 200 to 599")
    return statuses


VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
Variable = Annotated[
    str,
    Spelled(VARIABLE, "the name of an environment variable (export KEY='X-Api-Key: ...', and give KEY)"),
]
Headers = Annotated[list[str], Field(max_length=64), AfterValidator(_are_headers)]
Statuses = Annotated[list[int], Field(max_length=400), AfterValidator(_are_statuses)]


def _variable(name: str, what: str, wanted: str) -> str:
    if (value := os.environ.get(name)) is None:
        raise UserError(
            f"{what} is missing: the variable {name} is not set", hint=f"export {name}='{wanted}'"
        )
    return value


def _slip(secret: str, scheme: str) -> tuple[str, str | None] | None:
    """Return a secret's problem, without quoting it, and the text to export instead; None if there is no problem."""
    if not secret:
        return "is empty", None
    if not secret.isprintable():
        # No user ID, password (RFC 7617, section 2) or token (RFC 6750, section 2.1) contains such characters.
        return (
            "contains a line end or another control character, as text from a file often does"
        ), '"$(cat FILE)"'
    if secret[0] == secret[-1] and secret[0] in "'\"" and secret.count(secret[0]) == 2:
        return "contains quotation marks, which docker --env-file does not remove", None
    if scheme == "bearer" and secret.lower().startswith("bearer "):
        return "begins with Bearer, which --auth bearer adds", None
    return None


def _header_in(variable: str) -> str:
    """Return the header in an environment variable.

    Raises UserError. Its message does not quote the value, because the value may be secret.
    """
    header = _variable(variable, "a header", "Name: value")
    if ":" not in header:
        raise UserError(
            f"the variable {variable} does not contain a header (Name: value)",
            hint=f"export {variable}='X-Api-Key: ...'",
        )
    if problems := _native.header_problems(header_pairs([header])):
        raise UserError(f"the header in the variable {variable} can't be sent: {'; '.join(problems)}")
    return header


class RequestSettings(Model):
    """The form of every request.

    `headers` are written `Name: value`. `status` lists the statuses of a correct answer, by default 200 to 299.

    `body_bytes` is the size of the answer's body. `authorization` says whether the variable holds `user:password` or
    a bearer token.
    """

    method: Annotated[
        str,
        Spelled(r"(?!CONNECT$)[A-Z-]{1,20}", "a method such as GET or PROPFIND, and not CONNECT"),
        BeforeValidator(lambda name: name.upper() if isinstance(name, str) else name),
        Option(("--method", "-m", "-X")),
    ] = Field(
        default="GET", description="The method of every request: GET, HEAD, POST, or any other but CONNECT."
    )
    headers: Annotated[Headers, Option(("--header", "-H"))] = Field(
        default=[], description="Further headers, each `Name: value`."
    )
    headers_from_env: Annotated[list[Variable], Option(("--header-from-env",))] = Field(
        default=[],
        max_length=16,
        description="Environment variables that each contain a further header, `Name: value`, such as an "
        "API key.",
    )
    body: Annotated[str | None, Option(("--data",))] = Field(
        default=None,
        description="The body of every request, as text. `dyno load` sends it by POST by default.",
    )
    body_file: Annotated[str | None, Option(("--data-file", "-p"))] = Field(
        default=None, description="A file with the body of every request."
    )
    authorization: Annotated[Literal["basic", "bearer"] | None, Option(("--auth",))] = Field(
        default=None,
        description="The authentication scheme. An environment variable contains the credentials.",
    )
    authorization_variable: Annotated[
        str,
        Spelled(VARIABLE, "the name of an environment variable that contains the credentials"),
        Option(("--auth-variable",)),
    ] = Field(
        default="DYNO_AUTHORIZATION",
        description="The environment variable that contains `user:password` or the bearer token.",
    )
    status: Annotated[Statuses, Option(("--expect-status",), listed=True, ranges="each")] = Field(
        default=[], description="Expected statuses of answers. Default: 200 to 299."
    )
    body_bytes: Annotated[int | None, Option(("--expect-bytes",))] = Field(
        default=None, ge=0, description="Expected size of the body of each answer, in bytes."
    )

    @model_validator(mode="after")
    def makes_sense_together(self) -> Self:
        if self.body is not None and self.body_file is not None:
            raise ValueError("body and body_file can't be used together")
        return self

    @property
    def has_fields_alone(self) -> bool:
        """Whether only headers and authorization are set."""
        return not self.model_fields_set - {
            "headers",
            "headers_from_env",
            "authorization",
            "authorization_variable",
        }

    @property
    def says_empty(self) -> bool:
        """Whether answers without a body are expected, or usual for the method or the expected statuses."""
        usual = self.method != "GET" or bool(self.status and 200 not in self.status)
        return usual or self.body_bytes == 0

    def section(self) -> dict[str, Any]:
        """Return the section of a level's document, including secrets. Raises UserError."""
        headers = header_pairs([*self.headers, *map(_header_in, self.headers_from_env)])
        if self.authorization is not None:
            headers.append(("Authorization", self._credentials(self.authorization)))
        body = self._body()
        return {
            "method": self.method,
            "headers": headers,
            "body": None if body is None else base64.b64encode(body).decode("ascii"),
            "status": self.status,
            "bytes": self.body_bytes,
        }

    def _credentials(self, scheme: str) -> str:
        wanted = "user:password" if scheme == "basic" else "the token"
        secret = _variable(self.authorization_variable, "the authorization", wanted)
        if (wrong := _slip(secret, scheme)) is not None:
            raise UserError(
                f"the variable {self.authorization_variable} {wrong[0]}",
                hint=f"export {self.authorization_variable}={wrong[1] or wanted}",
            )
        if scheme == "basic":
            if ":" not in secret:  # the separator (RFC 7617, section 2)
                raise UserError(
                    f"{self.authorization_variable} has no colon: give user:password without any encoding",
                    hint=f"export {self.authorization_variable}=user:password",
                )
            return f"Basic {base64.b64encode(secret.encode()).decode('ascii')}"
        return f"Bearer {secret}"

    def _body(self) -> bytes | None:
        if self.body_file is None:
            return None if self.body is None else self.body.encode()
        try:
            with refuse_pipe(Path(self.body_file).expanduser()).open("rb") as file:
                body = file.read(MOST_BODY_BYTES + 1)
        except OSError as error:
            raise UserError(f"the body {self.body_file} can't be read: {error.strerror}") from error
        if len(body) > MOST_BODY_BYTES:
            raise UserError(f"the body {self.body_file} has more than {MOST_BODY_BYTES >> 20} MiB")
        return body

    def described(self) -> str:
        """Describe the requests, and which answers count as correct, for the methodology."""
        names = [header.partition(":")[0].strip() for header in self.headers]
        names += [f"the header in ${variable}" for variable in self.headers_from_env]
        parts = [f"Requests: {self.method}"]
        parts += [f"with {', '.join(names)}"] if names else []
        parts += [f"{self.authorization} authorization"] if self.authorization else []
        parts += [f"a body of {len(self.body.encode()):,} bytes"] if self.body is not None else []
        parts += [f"the body {self.body_file}"] if self.body_file is not None else []
        right = " or ".join(map(str, self.status)) or "200 to 299"
        size = "" if self.body_bytes is None else f" and a body of {self.body_bytes:,} bytes"
        return f"{', '.join(parts)}. Expected answers: status {right}{size}."
