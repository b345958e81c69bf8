"""The options of `dyno load` that say how requests are made and whom to trust, as types of its parameters.

Not for what they come to: see `plan/quick_http.py`.
"""

from __future__ import annotations

from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from serverdyno.errors import UserError

if TYPE_CHECKING:
    from serverdyno.plan.quick_http import HttpOptions

Method = Annotated[
    str | None, typer.Option("--method", "-m", help="GET, POST, PUT, PATCH, DELETE or OPTIONS.")
]
Header = Annotated[
    list[str] | None, typer.Option("--header", "-H", help='A header, "Name: value"; may be repeated.')
]
Data = Annotated[str | None, typer.Option(help="The body of every request; POST unless --method says.")]
DataFile = Annotated[Path | None, typer.Option(help="A file with the body.")]
Urls = Annotated[
    Path | None, typer.Option(help="A file of paths to ask for by weight, a line each: /path, /path 3.")
]
Auth = Annotated[
    str | None,
    typer.Option(help="basic or bearer; the secret is in the environment: see --auth-variable."),
]
AuthVariable = Annotated[
    str | None,
    typer.Option(help="The variable with user:password or the token; DYNO_AUTHORIZATION otherwise."),
]
ExpectStatus = Annotated[
    str | None, typer.Option(help="Statuses of right answers, as 200,304; otherwise 200 to 299.")
]
ExpectBytes = Annotated[int | None, typer.Option(help="The size of the body of right answers.")]
CaFile = Annotated[Path | None, typer.Option(help="Trust these authorities, not the system's (PEM).")]
Insecure = Annotated[
    bool, typer.Option("--insecure", "-k", help="Accept any certificate; the report says so.")
]
TlsMin = Annotated[str | None, typer.Option(help="The oldest version of TLS: 1.2 or 1.3.")]
TlsMax = Annotated[str | None, typer.Option(help="The newest.")]
Ciphers = Annotated[
    str | None, typer.Option(help="Cipher suites by IANA's names, with commas; otherwise all.")
]
Resumption = Annotated[
    float | None,
    typer.Option(help="Share of connections that offer an earlier session, 0 to 1; otherwise 0."),
]
Fleet = Annotated[
    Path | None, typer.Option(help="Folder of a fleet whose nodes make the load; see dyno fleet.")
]
Number = Annotated[str | None, typer.Option("-n", hidden=True, help="Of ab and h2load.")]


def refuse_number(number: str | None) -> None:
    """Answer ab's and h2load's number of requests with the option for it. Raises UserError."""
    if number is not None:
        raise UserError(
            "-n: load goes on for a time here, not for a number of requests",
            hint="Say how long: --length 10s (or -d 10s).",
        )


def chosen(*groups: tuple[Any, ...]) -> HttpOptions:
    """Return the options from their values, in the order of the fields of `HttpOptions`."""
    from serverdyno.plan.quick_http import HttpOptions  # noqa: PLC0415

    given = dict(zip((field.name for field in fields(HttpOptions)), chain(*groups), strict=True))
    return HttpOptions(**{**given, "header": tuple(given["header"] or ())})
