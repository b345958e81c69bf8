"""`dyno load URL`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

CLIENTS, LENGTH = "1,4,16,64", "1.5s"
"""The defaults: a first figure in about ten seconds."""
EXAMPLE = "Example: dyno load http://127.0.0.1:8080/ --clients 1,4,8,16 --length 10s"


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command("load", epilog=EXAMPLE)(load)


def load(
    url: Annotated[str, typer.Argument(help="Where to: http[s]://host[:port]/path")],
    clients: Annotated[
        str, typer.Option("--clients", "-c", help="Numbers of clients, one load level each.")
    ] = CLIENTS,
    length: Annotated[str, typer.Option("--length", "-d", help="Length of a load level: 10s, 2m.")] = LENGTH,
    repetitions: Annotated[int, typer.Option(help="How often the whole curve is measured.")] = 1,
    http: Annotated[str, typer.Option(help="HTTP version: 1.0 or 1.1.")] = "1.1",
    keep_alive: Annotated[bool, typer.Option(help="Use connections again.")] = True,
    max_rate: Annotated[
        float | None, typer.Option(help="Requests a second of all clients, at most; needed outside loopback.")
    ] = None,
    threads: Annotated[
        int, typer.Option("--threads", "-t", help="Threads that make the load, one CPU each.")
    ] = 1,
    cpus: Annotated[
        str | None,
        typer.Option(help="CPUs for these threads: 0,2. Otherwise the first ones that may be used."),
    ] = None,
    report: Annotated[
        bool, typer.Option("--report", help="Also write the page with charts; dyno report does so later.")
    ] = False,
    method: Annotated[
        str | None, typer.Option("--method", "-m", help="GET, POST, PUT, PATCH, DELETE or OPTIONS.")
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", help='A header, "Name: value"; may be repeated.')
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="The body of every request; POST unless --method says.")
    ] = None,
    data_file: Annotated[Path | None, typer.Option(help="A file with the body.")] = None,
    urls: Annotated[
        Path | None, typer.Option(help="A file of paths to ask for by weight, a line each: /path, /path 3.")
    ] = None,
    auth: Annotated[
        str | None,
        typer.Option(help="basic or bearer; the secret is in the environment: see --auth-variable."),
    ] = None,
    auth_variable: Annotated[
        str | None,
        typer.Option(help="The variable with user:password or the token; DYNO_AUTHORIZATION otherwise."),
    ] = None,
    expect_status: Annotated[
        str | None, typer.Option(help="Statuses of right answers, as 200,304; otherwise 200 to 299.")
    ] = None,
    expect_bytes: Annotated[int | None, typer.Option(help="The size of the body of right answers.")] = None,
    ca_file: Annotated[
        Path | None, typer.Option(help="Trust these authorities, not the system's (PEM).")
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", "-k", help="Accept any certificate; the report says so.")
    ] = False,
    tls_min: Annotated[str | None, typer.Option(help="The oldest version of TLS: 1.2 or 1.3.")] = None,
    tls_max: Annotated[str | None, typer.Option(help="The newest.")] = None,
    ciphers: Annotated[
        str | None, typer.Option(help="Cipher suites by IANA's names, with commas; otherwise all.")
    ] = None,
    resumption: Annotated[
        float | None,
        typer.Option(help="Share of connections that offer an earlier session, 0 to 1; otherwise 0."),
    ] = None,
    number: Annotated[str | None, typer.Option("-n", hidden=True, help="Of ab and h2load.")] = None,
    into: Annotated[Path | None, typer.Option(help="Folder of the experiment.")] = None,
) -> None:
    """Load one URL with more and more clients, and show throughput and latency at each level."""
    from serverdyno.cli import carry_out  # noqa: PLC0415
    from serverdyno.errors import UserError  # noqa: PLC0415
    from serverdyno.plan.quick import QuickOptions, quick_plan  # noqa: PLC0415
    from serverdyno.plan.quick_http import HttpOptions  # noqa: PLC0415
    from serverdyno.runner.create import create_experiment, default_folder  # noqa: PLC0415

    if number is not None:
        raise UserError(
            "-n: load goes on for a time here, not for a number of requests",
            hint="Say how long: --length 10s (or -d 10s).",
        )
    plan, suite, text = quick_plan(
        QuickOptions(
            url=url,
            clients=clients,
            length=length,
            repetitions=repetitions,
            http_version=http,
            keep_alive=keep_alive,
            max_rate_per_s=max_rate,
            threads=threads,
            cpus=cpus,
            requests=HttpOptions(
                method=method,
                header=tuple(header or ()),
                data=data,
                data_file=data_file,
                urls=urls,
                auth=auth,
                auth_variable=auth_variable,
                expect_status=expect_status,
                expect_bytes=expect_bytes,
                ca_file=ca_file,
                insecure=insecure,
                tls_min=tls_min,
                tls_max=tls_max,
                ciphers=ciphers,
                resumption=resumption,
            ),
        )
    )
    with create_experiment(into or default_folder(plan.name), text, plan, suite) as experiment:
        carry_out.carry_out_and_report(experiment, page=report, new=True)
