"""`dyno load URL`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from serverdyno.cli import load_options as options
from serverdyno.cli.habits import LoadCommand

if TYPE_CHECKING:
    from pathlib import Path

    from serverdyno.plan.quick import QuickOptions

EXAMPLE = "Example: dyno load http://127.0.0.1:8080/ --clients 1,4,8,16 --length 10s"


def register(app: typer.Typer) -> None:
    app.command("load", cls=LoadCommand, epilog=EXAMPLE)(load)


def load(
    url: Annotated[str, typer.Argument(help="Where to: http[s]://host[:port]/path")],
    clients: options.Clients = None,
    length: options.Length = None,
    rate: options.Rate = None,
    objective: options.Objective = None,
    trials: options.Trials = None,
    arrivals: options.Arrivals = "poisson",
    repetitions: Annotated[int, typer.Option(help="How often the whole curve is measured.")] = 1,
    http: Annotated[str, typer.Option(help="HTTP version: 1.0, 1.1 or 2.")] = "1.1",
    http2: options.Http2 = False,
    streams: options.Streams = None,
    pipeline: options.Pipeline = None,
    keep_alive: Annotated[bool, typer.Option(help="Use connections again.")] = True,
    max_rate: options.MaxRate = None,
    threads: options.Threads = 1,
    cpus: options.Cpus = None,
    report: options.Report = False,
    method: options.Method = None,
    header: options.Header = None,
    data: options.Data = None,
    data_file: options.DataFile = None,
    content_type: options.ContentType = None,
    urls: options.Urls = None,
    session: options.Session = None,
    auth: options.Auth = None,
    auth_variable: options.AuthVariable = None,
    expect_status: options.ExpectStatus = None,
    expect_bytes: options.ExpectBytes = None,
    ca_file: options.CaFile = None,
    insecure: options.Insecure = False,
    tls_min: options.TlsMin = None,
    tls_max: options.TlsMax = None,
    ciphers: options.Ciphers = None,
    resumption: options.Resumption = None,
    resolve: options.Resolve = None,
    unix_socket: options.UnixSocket = None,
    fleet: options.Fleet = None,
    into: options.Into = None,
    as_json: options.Json = False,
) -> None:
    """Load one URL with more and more clients, and show throughput and latency at each level."""
    from serverdyno.plan.quick import QuickOptions  # noqa: PLC0415

    chosen = QuickOptions(
        url=url,
        clients=options.clients_or_default(clients, rate or objective),
        length=options.length_or_default(length, rate, objective),
        rate=rate,
        objective=objective,
        most_trials=trials,
        arrivals=arrivals,
        repetitions=repetitions,
        http_version="2" if http2 else http,
        streams=streams,
        pipeline=pipeline,
        keep_alive=keep_alive,
        max_rate_per_s=max_rate,
        threads=threads,
        cpus=cpus,
        requests=options.chosen(
            (method, header, data, data_file, content_type, urls, session),
            (auth, auth_variable, expect_status, expect_bytes),
            (ca_file, insecure, tls_min, tls_max, ciphers, resumption, resolve, unix_socket),
        ),
    )
    _carry_out(chosen, fleet, into, page=report, as_json=as_json)


def _carry_out(
    chosen: QuickOptions, fleet: Path | None, into: Path | None, *, page: bool, as_json: bool
) -> None:
    """Make the plan of the options, and carry it out."""
    from serverdyno.cli import carry_out  # noqa: PLC0415
    from serverdyno.plan.load import with_fleet  # noqa: PLC0415
    from serverdyno.plan.quick import quick_plan  # noqa: PLC0415
    from serverdyno.runner.create import create_experiment, default_folder  # noqa: PLC0415

    plan, suite, text = quick_plan(chosen)
    if fleet is not None:
        plan = with_fleet(plan, fleet)
    with create_experiment(into or default_folder(plan.name), text, plan, suite) as experiment:
        carry_out.carry_out_and_report(experiment, page=page, new=True, as_json=as_json)
