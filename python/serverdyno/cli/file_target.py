"""A directory of this machine, an NFS export or an SMB share, for verbs that work with files once and by themselves.

Not for: servers elsewhere, whose load a plan bounds.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

if TYPE_CHECKING:
    from serverdyno import _native
    from serverdyno.protocols.access import Access
    from serverdyno.protocols.base import Protocol

PASSWORD_VARIABLE = "DYNO_SMB_PASSWORD"
MIB = 1 << 20
Directory = Annotated[
    str, typer.Option("-d", help="A directory of this machine, or an nfs:// or smb:// URL of loopback.")
]
Server = Annotated[
    str | None, typer.Option(help="In place of -d: a server that is started for it, samba or ganesha.")
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", help="KEY=VALUE: a setting of that server; may be given again.")
]
User = Annotated[str | None, typer.Option(help=f"Of an SMB server; the password is in {PASSWORD_VARIABLE}.")]
Authentication = Annotated[
    Literal["ntlm", "kerberos"],
    typer.Option(
        help="How to log on to an SMB server. ntlm: by the user's password, or as a guest. kerberos: by the ticket of "
        "kinit, or for --user by the password or the keytab that KRB5_CLIENT_KTNAME names."
    ),
]
Hours = Annotated[
    float, typer.Option(min=0.001, max=1000.0, help="The longest that it, or a step, may take.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print everything that was measured as JSON.")]


class LogOn(NamedTuple):
    """How the user of an SMB server is known to it. The password is in `PASSWORD_VARIABLE`."""

    user: str | None = None
    authentication: Literal["ntlm", "kerberos"] = "ntlm"


def url_of(directory: str) -> str:
    """Return the URL of a path, or the URL that was given. Raises UserError for a share as Windows writes it."""
    from serverdyno.errors import UserError  # noqa: PLC0415
    from serverdyno.plan.validate import other_spelling  # noqa: PLC0415

    if "://" in directory:
        return directory
    if (url := other_spelling(directory)) is not None and not Path(directory).exists():
        raise UserError(
            f"{directory} is no directory of this machine", hint=f"A server's is written -d '{url}'."
        )
    return Path(directory).resolve().as_uri()


@contextmanager
def target_at(
    directory: str,
    server: str | None,
    settings: Sequence[str],
    log_on: LogOn,
    more: Mapping[str, object] = MappingProxyType({}),
) -> Iterator[tuple[str, _native.Target]]:
    """The URL and the target of a directory; or of a server of ours, which runs for as long.

    `settings`: of that server, KEY=VALUE. `more`: keys of the target's section.
    Raises UserError, ServerError or ConsentError.
    """
    if server is None:
        url = url_of(directory)
        yield url, local_target(url, log_on, more)
        return
    from serverdyno import protocols  # noqa: PLC0415
    from serverdyno.errors import UserError  # noqa: PLC0415
    from serverdyno.fleet.consent import open_section  # noqa: PLC0415
    from serverdyno.protocols.files import FILES  # noqa: PLC0415
    from serverdyno.servers.registry import driver_type  # noqa: PLC0415
    from serverdyno.servers.running import running  # noqa: PLC0415

    if log_on.authentication == "kerberos":
        raise UserError(
            "a server that is started here logs its clients on without Kerberos",
            hint="Leave --authentication out, or give -d and the smb:// URL of a server of the domain.",
        )
    spoken = driver_type(server).settings_type.protocol
    if spoken is None or protocols.of(spoken).work is not FILES:
        raise UserError(
            f"{server} is no file server that is started here", hint="samba or ganesha, for example"
        )
    protocol = protocols.of(spoken)
    with running(server, dict(map(_setting, settings))) as driver:
        access = driver.access()
        section = protocol.target_section(access, protocol.settings_type()) | dict(more)
        yield access.url, open_section(protocol, access, section)


def _setting(text: str) -> tuple[str, Any]:
    """`commit_always=true`, with a value as in TOML, or a word. Raises UserError."""
    from serverdyno.errors import UserError  # noqa: PLC0415

    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise UserError(f"--set {text}: expected KEY=VALUE", hint="For example --set commit_always=true")
    try:
        return name, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return name, value


def local_target(
    url: str, log_on: LogOn, more: Mapping[str, object] = MappingProxyType({})
) -> _native.Target:
    """Return the target of a URL of loopback or a directory. `more`: keys of its section.

    Raises UserError or ServerError.
    """
    from serverdyno import protocols  # noqa: PLC0415
    from serverdyno.errors import ConsentError, UserError  # noqa: PLC0415
    from serverdyno.fleet.consent import open_section  # noqa: PLC0415
    from serverdyno.plan.validate import url_problem  # noqa: PLC0415
    from serverdyno.protocols.files import FILES  # noqa: PLC0415

    schemes = [each for p in protocols.carrying(FILES) for each in p.schemes]
    if (wrong := url_problem(url, schemes)) is not None:
        raise UserError(wrong, hint="A path, or for example nfs://127.0.0.1/export")
    protocol = protocols.of_scheme(url.partition(":")[0])
    assert protocol is not None  # its scheme was one of those
    access = _access(protocol, url, log_on)
    section = protocol.target_section(access, protocol.settings_type())
    elsewhere = UserError(
        f"{url} is not on this machine: nothing bounds the rate of this load",
        hint="Measure a server elsewhere by a plan with bounds and the suite quick-streams, quick-metadata or "
        "quick-files.",
    )
    try:
        target = open_section(protocol, access, section | dict(more))
    except ConsentError as error:  # consent would not be enough
        raise elsewhere from error
    if not target.loopback:
        raise elsewhere
    return target


def _access(protocol: Protocol[Any], url: str, log_on: LogOn) -> Access:
    """Return how the server of a URL lets the user in. Raises UserError or ServerError."""
    from serverdyno.errors import UserError  # noqa: PLC0415
    from serverdyno.protocols.access import Access  # noqa: PLC0415
    from serverdyno.servers.log_on import password_of, ticket_for  # noqa: PLC0415

    user, authentication = log_on
    look = protocol.look(url)
    if look is None or not look.has_shares:
        if authentication == "kerberos":
            raise UserError(
                f"{url}: --authentication kerberos is only for URLs that begin with smb://",
                hint="For example: -d smb://files.example.com/data --authentication kerberos",
            )
        return Access(url)
    ticket = ticket_for(url, user, PASSWORD_VARIABLE, authentication)
    return Access(url, user, None if ticket else password_of(user, PASSWORD_VARIABLE), ticket=ticket)
