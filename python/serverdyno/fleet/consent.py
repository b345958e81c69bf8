"""Targets that load may go to, with advice for the user where it may not.

The decision is made in the data plane, which takes nothing but a `Target` that has passed it: see
`crates/http/src/consent.rs`. Here is only the user's token, and the words.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from serverdyno._native import AnswerError, SessionError, Target
from serverdyno.errors import ConsentError, ServerError, UserError, no_answer
from serverdyno.plan.model import Bounds, Mix
from serverdyno.plan.validate import is_loopback
from serverdyno.protocols.smb import SmbSettings

TOKEN_BYTES = 16


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of an SMB server and who may use them. `network_namespace`: the file that names it, where the
    server is in one of its own.
    """

    url: str
    names: tuple[str, ...]
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    network_namespace: str | None = None


def open_target(url: str, bounds: Bounds | None = None, mixes: Sequence[Mix] = ()) -> Target:
    """The target at `url`, for load within `bounds`, which only a target on loopback may do without.

    Raises UserError, ServerError, or ConsentError that says how consent is given.
    """
    return _bounded(
        url, bounds, mixes, lambda token: Target.open("http", json.dumps({"url": url}), consent_token=token)
    )


def open_shares(
    shares: Shares, smb: SmbSettings, bounds: Bounds | None = None, mixes: Sequence[Mix] = ()
) -> Target:
    """The shares, as `open_target` does it."""

    section = {
        "url": shares.url,
        "shares": list(shares.names),
        "user": shares.user,
        "network_namespace": shares.network_namespace,
        **smb.model_dump(),
    }

    def opened(token: str | None) -> Target:
        return Target.open("smb", json.dumps(section), consent_token=token, password=shares.password)

    return _bounded(shares.url, bounds, mixes, opened)


def _bounded(
    url: str, bounds: Bounds | None, mixes: Sequence[Mix], opened: Callable[[str | None], Target]
) -> Target:
    for mix in mixes:
        if bounds and (mix.clients > bounds.max_clients or mix.length_s > bounds.max_length_s):
            raise UserError(
                f"mix {mix.name}, {mix.clients} clients for {mix.length_s:g} s, is outside of the bounds of {url}: "
                f"{bounds.max_clients} clients and {bounds.max_length_s:g} s"
            )
    target = _consenting(url, opened)
    if bounds is None and not target.loopback:
        raise UserError(
            f"{url} is {target.address}, which is not this machine: its load must be bounded",
            hint="Give the server `bounds` in the plan, or --max-rate to `dyno load`.",
        )
    return target


def _consenting(url: str, opened: Callable[[str | None], Target]) -> Target:
    # A token is made only for who needs it: loopback does not, and a home that can't be written is no obstacle there.
    token = None if is_loopback(url) else consent_token()
    try:
        return opened(token)
    except PermissionError as error:
        raise ConsentError(
            str(error), hint="Put the file there, or ask whoever runs the server; loopback needs no consent."
        ) from error
    except ValueError as error:
        example = "smb://127.0.0.1:1445/" if url.startswith("smb:") else "http://127.0.0.1:8080/"
        raise UserError(f"{url}: {error}", hint=f"A URL is, for example, {example}") from error
    except SessionError as error:
        why, advice = error.args
        raise ServerError(f"{url} gives no session to ask it for consent: {why}", hint=advice) from error
    except AnswerError as error:
        raise no_answer(url, "the question of consent", error) from error
    except OSError as error:
        raise ServerError(f"{url} can't be reached: {error}", hint="Is the server running?") from error


def consent_token() -> str:
    """This user's secret, made at first need. It names the file that a consenting server must have.

    Raises UserError where it can't be kept.
    """
    home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    path = Path(home).expanduser() / "serverdyno" / "token"
    try:
        if not path.exists():
            _make_token(path)
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError as error:
        raise UserError(
            f"the token that asks for consent can't be kept in {path}: {error.strerror}",
            hint="Set XDG_CONFIG_HOME to a directory of your own.",
        ) from error


def _make_token(path: Path) -> None:
    """Whole or not at all, for this user only; of two that make one at a time, both use the first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent) as draft:
        draft.write(f"{secrets.token_hex(TOKEN_BYTES)}\n")
        draft.flush()
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(draft.name)
