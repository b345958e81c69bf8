"""The options of `dyno load` that say how requests are made and whom to trust, as types of its parameters; and some of
`dyno run`.

Not for what they come to: see `plan/quick_http.py`.
"""

from __future__ import annotations

from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from serverdyno.plan.quick_http import HttpOptions

CLIENTS, LENGTH = "1,4,16,64", "1.5s"
"""The defaults: a first figure in about ten seconds."""
CONNECTIONS, OPEN_LENGTH = "64", "10s"
"""The defaults with --rate."""
TRIAL_LENGTH = "5s"
"""The default with --objective."""

Clients = Annotated[
    str | None,
    typer.Option(
        "--clients",
        "-c",
        help="Numbers of clients, one load level each; with --rate how many connections.",
        show_default=f"{CLIENTS}; with --rate or --objective {CONNECTIONS}",
    ),
]
OtherClients = Annotated[
    str | None,
    typer.Option(
        "--clients", "-c", help="Use these numbers of clients instead of the suite's: 1,2,4. Reports show it."
    ),
]
Length = Annotated[
    str | None,
    typer.Option(
        "--length",
        "-d",
        help="Length of a load level: 10s, 2m.",
        show_default=f"{LENGTH}; with --rate {OPEN_LENGTH}; with --objective {TRIAL_LENGTH}",
    ),
]
Rate = Annotated[
    str | None,
    typer.Option(
        help="Requests that come in a second whatever becomes of them, one load level each: 1000,2000. With "
        "--objective the lowest and the highest that may be tried."
    ),
]
Objective = Annotated[
    str | None,
    typer.Option(
        help="Look for the highest rate that holds this: p99<50ms, or p99<50ms,failed<0.1%; stops by itself."
    ),
]
Trials = Annotated[
    int | None,
    typer.Option(help="With --objective: trials at most, of --length each.", show_default="30"),
]
MaxRate = Annotated[
    float | None, typer.Option(help="Requests a second of all clients, at most; needed outside loopback.")
]
Arrivals = Annotated[str, typer.Option(help="When they come: poisson (by chance, as users) or uniform.")]
Threads = Annotated[int, typer.Option("--threads", "-t", help="Threads that make the load, one CPU each.")]
Report = Annotated[
    bool, typer.Option("--report", help="Also write the page with charts; dyno report does so later.")
]
Method = Annotated[
    str | None, typer.Option("--method", "-m", help="GET, POST, PUT, PATCH, DELETE or OPTIONS.")
]
Header = Annotated[
    list[str] | None, typer.Option("--header", "-H", help='A header, "Name: value"; may be repeated.')
]
Data = Annotated[str | None, typer.Option(help="The body of every request; POST unless --method says.")]
DataFile = Annotated[Path | None, typer.Option("--data-file", "-p", help="A file with the body.")]
ContentType = Annotated[
    str | None, typer.Option("--content-type", "-T", help="The header Content-Type, as ab's -T.")
]
Urls = Annotated[
    Path | None, typer.Option(help="A file of paths to ask for by weight, a line each: /path, /path 3.")
]
Session = Annotated[
    Path | None,
    typer.Option(help="A file of steps (TOML) that each client makes in order: docs/sessions.md."),
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
Cpus = Annotated[
    str | None,
    typer.Option(help="CPUs for these threads: 0,2. Otherwise the first ones that may be used."),
]
Http2 = Annotated[bool, typer.Option("--http2", help="HTTP/2: over TLS by ALPN, else with prior knowledge.")]
Streams = Annotated[
    int | None,
    typer.Option(help="Of HTTP/2: streams that each client has open on its connection; otherwise 10."),
]
Pipeline = Annotated[
    int | None, typer.Option(help="Requests that each client sends ahead on its connection of HTTP/1.1.")
]
Resolve = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT:ADDRESS",
        help="Connect to this address in place of the URL's host, which is asked for all the same.",
    ),
]
UnixSocket = Annotated[
    Path | None, typer.Option(help="Connect to this socket of this machine in place of the URL's host.")
]
Json = Annotated[
    bool, typer.Option("--json", help="Print the result as one JSON document, after docs/report.schema.json.")
]
Into = Annotated[Path | None, typer.Option(help="Folder of the experiment.")]


def clients_or_default(clients: str | None, rate: str | None) -> str:
    """Return the clients as given, or those of closed or open load."""
    return clients or (CLIENTS if rate is None else CONNECTIONS)


def length_or_default(length: str | None, rate: str | None, objective: str | None) -> str:
    """Return the length as given, or that of closed or open load, or of a trial."""
    if objective is not None:
        return length or TRIAL_LENGTH
    return length or (LENGTH if rate is None else OPEN_LENGTH)


def chosen(*groups: tuple[Any, ...]) -> HttpOptions:
    """Return the options from their values, in the order of the fields of `HttpOptions`."""
    from serverdyno.plan.quick_http import HttpOptions  # noqa: PLC0415

    given = dict(zip((field.name for field in fields(HttpOptions)), chain(*groups), strict=True))
    return HttpOptions(**{**given, "header": tuple(given["header"] or ())})
