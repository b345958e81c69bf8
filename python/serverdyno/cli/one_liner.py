"""Run a plan with one suite and one server once, for `dyno bonnie` and `dyno scenario`, and return its records."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from serverdyno.plan.locate import KeyPath
    from serverdyno.plan.model import Plan, Suite
    from serverdyno.store.records import LevelRecord

PASSWORD_VARIABLE = "DYNO_SMB_PASSWORD"
Directory = Annotated[
    str, typer.Option("-d", help="A directory of this machine, or an nfs:// or smb:// URL of a server.")
]
Server = Annotated[str | None, typer.Option(help="Server to start, instead of -d: samba or ganesha.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="KEY=VALUE: a setting of the started server; may be repeated."),
]
User = Annotated[
    str | None, typer.Option(help=f"User name on an SMB server. The password is in {PASSWORD_VARIABLE}.")
]
Authentication = Annotated[
    Literal["ntlm", "kerberos"],
    typer.Option(
        help="How to log on to an SMB server. ntlm: with the user's password, or as a guest. kerberos: with "
        "a ticket from kinit or, for --user, with the password or the keytab that KRB5_CLIENT_KTNAME "
        "names."
    ),
]
Hours = Annotated[float, typer.Option(min=0.001, max=24.0, help="Stop each step after this many hours.")]
Into = Annotated[
    Path | None, typer.Option(help="Folder of the experiment. Default: a new one in experiments/.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print all measurements as JSON.")]


class Place(NamedTuple):
    """The place to measure: a directory or URL, or a server to start with settings, each KEY=VALUE."""

    directory: str
    server: str | None = None
    settings: Sequence[str] = ()
    user: str | None = None
    authentication: str = "ntlm"


def fields_of_plans() -> dict[str, FieldInfo]:
    """Return the fields of plans that are options of these commands, by option name."""
    from serverdyno.plan.model import Bounds, Plan  # noqa: PLC0415

    return {"seed": Plan.model_fields["seed"], "max_rate_per_s": Bounds.model_fields["max_rate_per_s"]}


def url_of(directory: str) -> str:
    """Return the URL of a path, or the given URL. Raises UserError if the path can't be used."""
    from serverdyno.errors import UserError  # noqa: PLC0415
    from serverdyno.plan import protocols  # noqa: PLC0415

    if "://" in directory or re.match("file:/", directory, re.IGNORECASE):
        return protocols.normal_url(directory)
    if not directory:
        raise UserError(
            "-d is empty",
            hint="Give a directory. If the command uses a shell variable, check that it is set.",
        )
    try:
        place = Path(directory)
        if not place.exists() and (hint := _meant(directory)) is not None:
            raise UserError(f"{directory} is not a directory of this machine", hint=hint)
        return place.resolve().as_uri()
    except (OSError, RuntimeError, ValueError) as error:  # too long a name, or a loop of symbolic links
        why = error.strerror if isinstance(error, OSError) else f"{error}"
        raise UserError(f"-d {directory} can't be used: {why}", hint="Give a directory.") from error


def _meant(directory: str) -> str | None:
    """Return a hint for a directory in a notation that Linux or this command does not support; otherwise None."""
    from serverdyno.plan.validate import other_spelling  # noqa: PLC0415

    written = os.path.expandvars(os.path.expanduser(directory))  # noqa: PTH111  ~ of an unknown user stays
    slashed = directory.replace("\\", "/")
    hint = None
    if (url := other_spelling(directory)) is not None:
        hint = f"Write a directory on a server as -d '{url}'."
    elif re.match(r"[A-Za-z]:(?:/|$)", slashed):
        in_wsl = f"/mnt/{slashed[0].lower()}{slashed[2:]}"
        hint = (
            "This is a Windows path. Write a share as -d smb://HOST/SHARE; in WSL, write a drive as -d "
            f"'{in_wsl}'."
        )
    elif slashed != directory:
        hint = f"Linux separates names with /: -d '{slashed}'"
    elif directory[:1] in ("~", "$"):
        hint = (
            f"The shell does not replace {directory[0]} in quotation marks: write -d {written} without them."
        )
    elif directory.startswith("="):
        hint = f"A short option has no =: write -d {directory[1:]}"
    elif found := re.match(r"(\d+\.\d+\.\d+\.\d+)(?:/(.*))?$", directory):
        hint = (
            f"Write a share as -d smb://{found[1]}/{found[2] or 'SHARE'}, an export as -d nfs://{directory}"
        )
    elif re.fullmatch(r"(?:[^/@]+@)?[^/:@]+:[^:]*", directory):
        hint = "For a directory on another machine, mount it with sshfs, and give -d MOUNTPOINT."
    return hint


def read(given: Mapping[str, Any], fields: Mapping[str, FieldInfo], command: str) -> dict[str, Any]:
    """Return the values of options. Raises PlanError with every invalid option."""
    from serverdyno.errors import PlanError  # noqa: PLC0415
    from serverdyno.plan.protocols.options import read_all  # noqa: PLC0415

    values, problems = read_all(given, fields)
    if problems:
        raise PlanError(command, problems)
    return values


def run(
    suite: Suite, place: Place, values: Mapping[str, Any], into: Path | None, *, command: str
) -> tuple[list[LevelRecord], str, Suite]:
    """Measure a suite once.

    Return its records, the URL of the server, and the suite as it ran. `values` contains keys of the plan, and
    `max_rate_per_s`. Raises DynoError, including if the run fails.
    """
    import tomli_w  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415

    from serverdyno.cli.output import say  # noqa: PLC0415
    from serverdyno.cli.progress import progress_for  # noqa: PLC0415
    from serverdyno.errors import DynoError, ServerError  # noqa: PLC0415
    from serverdyno.run.create import create_experiment  # noqa: PLC0415
    from serverdyno.run.experiment import carry_out  # noqa: PLC0415

    plan, console = _plan(suite, place, values), Console(stderr=True)
    text = tomli_w.dumps(plan.model_dump(mode="json", exclude_defaults=True, exclude_none=True))
    with create_experiment(into, f"# Made by: dyno {command}\n\n{text}", plan, [suite]) as experiment:
        say(console, f"experiment: {experiment.folder}")
        try:
            with progress_for(console, tells_failures=False) as progress:
                whole = carry_out(experiment, progress)
        except DynoError:
            experiment.discard()
            raise
        if not whole:
            note = experiment.run_notes()[1]
            raise ServerError(note.reason, hint=note.hint)
        url = plan.servers[0].url or plan.servers[0].server
        return experiment.levels(), url, experiment.head.suite


def _plan(suite: Suite, place: Place, values: Mapping[str, Any]) -> Plan:
    """Return the plan. Raises UserError or PlanError."""
    from serverdyno.errors import PlanError  # noqa: PLC0415
    from serverdyno.plan.check_suite import suite_problems  # noqa: PLC0415
    from serverdyno.plan.document import sentence  # noqa: PLC0415
    from serverdyno.plan.validate import check_plan  # noqa: PLC0415
    from serverdyno.servers.registry import settings_types  # noqa: PLC0415

    document = {
        "name": suite.name,
        "title": suite.title,
        "suite": suite.name,
        "repetitions": 1,
        "servers": [_server(suite, place, values.get("max_rate_per_s"))],
        # The client's threads may run on any CPU, like the threads of any program.
        "generator": {"cpus": sorted(os.sched_getaffinity(0))},
        **{key: value for key, value in values.items() if key != "max_rate_per_s"},
    }
    plan, problems = check_plan(document, settings_types(), known=[suite])
    # Only a DNS lookup shows whether the host is remote; `open_target` (fleet/consent.py) then requires bounds.
    problems = [found for found in problems if found.path != ("servers", 0, "bounds")] + suite_problems(suite)
    if plan is None or problems:
        raise PlanError(
            "the options", [sentence(replace(found, path=_named(found.path))) for found in problems]
        )
    return plan


def _named(path: KeyPath) -> KeyPath:
    """Return the option that sets a key of the plan, or the key itself."""
    match path:
        case ("clients",):
            return ("--clients",)
        case ("servers", 0, "url"):
            return ("-d",)
        case ("servers", 0, "server"):
            return ("--server",)
        case ("servers", 0, "settings", "user"):
            return ("--user",)
        case ("servers", 0, "settings", *rest):
            return ("--set", *rest)
    return path


def _server(suite: Suite, place: Place, max_rate_per_s: float | None) -> dict[str, Any]:
    """Return the server of the plan. Raises UserError."""
    from serverdyno.errors import UserError  # noqa: PLC0415
    from serverdyno.plan import protocols  # noqa: PLC0415
    from serverdyno.plan.expand import levels  # noqa: PLC0415

    by_kerberos = place.authentication == "kerberos"
    if place.server is not None:
        if place.directory != ".":
            raise UserError(
                f"-d {place.directory} and --server {place.server} can't be used together",
                hint="Give only -d, or --server with --set data_directory=DIRECTORY for its files.",
            )
        if by_kerberos:
            raise UserError(
                "a server that dyno starts does not use Kerberos",
                hint="Leave --authentication out, or give -d and the smb:// URL of a server of the domain.",
            )
        return {"server": place.server, "settings": dict(map(_setting, place.settings))}
    url = url_of(place.directory)
    if "@" in url.partition("://")[2].partition("/")[0]:
        raise UserError(
            "-d: the URL must not contain a user name or password",
            hint=f"Give --user NAME, and the password in {PASSWORD_VARIABLE}.",
        )
    if place.user == "":
        raise UserError(
            "--user is empty",
            hint=(
                "Leave the option out to log on as a guest. If the command uses a shell variable, check that it is "
                "set."
            ),
        )
    server: dict[str, Any] = {"server": "external", "name": "target", "url": url}
    spoken = protocols.of_scheme(url.partition(":")[0])
    look = None if spoken is None else spoken.look(url)
    if look is not None and look.has_shares:
        server["settings"] = {
            "authentication": place.authentication,
            **({} if place.user is None else {"user": place.user}),
        }
    elif look is None or spoken not in protocols.carrying(suite.work):
        pass  # the URL itself is refused with the plan
    elif place.user is not None:
        raise UserError(
            f"{url}: --user is only for URLs that begin with smb://",
            hint="Leave the option out. Over NFS the URL names the user: ?uid=1000&gid=1000.",
        )
    elif by_kerberos:
        raise UserError(
            f"{url}: --authentication kerberos is only for URLs that begin with smb://",
            hint="For example: -d smb://files.example.com/data --authentication kerberos",
        )
    if max_rate_per_s is not None:
        server["bounds"] = {
            "max_clients": max(level.clients for level in levels(suite)),
            "max_rate_per_s": max_rate_per_s,
            "max_length_s": suite.length_s,
        }
    return server


def _setting(text: str) -> tuple[str, Any]:
    """Return the key and the value of `commit_always=true`; a value that is not TOML is text. Raises UserError."""
    from serverdyno.errors import UserError  # noqa: PLC0415

    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise UserError(f"--set {text}: expected KEY=VALUE", hint="For example --set commit_always=true")
    try:
        return name, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return name, value
