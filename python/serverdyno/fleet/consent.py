"""Targets that load may go to, with advice for the user where it may not.

The decision is made in the data plane, which takes nothing but a `Target` that has passed it: see
`crates/http/src/consent.rs`. Here is only the user's token, and the words.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from serverdyno._native import Target
from serverdyno.errors import ConsentError, ServerError, UserError
from serverdyno.plan.model import Bounds, Mix

TOKEN_BYTES = 16


def open_target(url: str, bounds: Bounds | None = None, mixes: Sequence[Mix] = ()) -> Target:
    """The target at `url`, for load within `bounds`, which only a target on loopback may do without.

    Raises UserError, ServerError, or ConsentError that says how consent is given.
    """
    target = _consenting(url)
    if bounds is None and not target.loopback:
        raise UserError(
            f"{url} is {target.address}, which is not this machine: its load must be bounded",
            hint="Give the server `bounds` in the plan, or --max-rate to `dyno load`.",
        )
    for mix in mixes:
        if bounds and (mix.clients > bounds.max_clients or mix.length_s > bounds.max_length_s):
            raise UserError(f"mix {mix.name} is outside of the bounds of {url}: {bounds}")
    return target


def _consenting(url: str) -> Target:
    try:
        return Target.open(url, consent_token())
    except PermissionError as error:
        raise ConsentError(
            str(error), hint="Put the file there, or ask whoever runs the server; loopback needs no consent."
        ) from error
    except ValueError as error:
        raise UserError(str(error), hint="For example: http://127.0.0.1:8080/") from error
    except OSError as error:
        raise ServerError(f"{url} can't be reached: {error}", hint="Is the server running?") from error


def consent_token() -> str:
    """This user's secret, made at first need. It names the file that a consenting server must have."""
    home = os.environ.get("XDG_CONFIG_HOME")
    path = (Path(home) if home else Path.home() / ".config") / "serverdyno" / "token"
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        token = secrets.token_hex(TOKEN_BYTES)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{token}\n")
        return token
