"""Open targets that consent to load, and advise the user if they don't.

The data plane decides: it accepts only a `Target` that has consented (`crates/http/src/consent.rs`). This module
manages the user's token, and contains the messages.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from serverdyno._native import AnswerError, SessionError, Target
from serverdyno.errors import ConsentError, ServerError, UserError, no_answer
from serverdyno.plan.model import Bounds, Level
from serverdyno.plan.open_load import MAX_RATE_PER_S
from serverdyno.plan.protocols.access import Access
from serverdyno.plan.protocols.base import Protocol
from serverdyno.plan.protocols.look import LOOK_S
from serverdyno.plan.protocols.model import SectionModel
from serverdyno.units import format_duration_s

TOKEN_BYTES = 16
MOST_SILENCE_S = 30
"""The longest allowed time between two requests of a file client.

Samba waits 35 s for the answer to a break, and NFS servers keep a lease for 60 or 90 s.
"""
NOT_RUNNING = "Check that the server is running."
HINTS: dict[int | None, str] = {
    # A failed look-up has no error number.
    None: "Check the spelling of the host, and that this machine's DNS or /etc/hosts has it.",
    errno.ENOENT: "Check the path, or create the directory first.",
    errno.ENOTDIR: "Give the path of a directory, not of a file.",
    errno.EACCES: "Give the user that runs dyno access to this directory and to each directory above it.",
    errno.EPERM: "Run dyno as root.",
    errno.ETIMEDOUT: "The host does not answer. Check the address, and any firewall on the way.",
    errno.EHOSTUNREACH: "Check the address, and that this machine has a route to it (ip route).",
    errno.ENETUNREACH: "Check the address, and that this machine has a route to it (ip route).",
}
"""Remedies if a target can't be opened, by the error number."""


def open_target(  # noqa: PLR0913 (what a target is opened with)
    protocol: Protocol[Any],
    access: Access,
    settings: SectionModel,
    bounds: Bounds | None = None,
    levels: Sequence[Level] = (),
    *,
    timeout_s: float = LOOK_S,
) -> Target:
    """Return the target of `access` for load within `bounds`. Only a target on loopback needs no bounds.

    `timeout_s` bounds the opening, and each later check.

    Raises UserError, ServerError, or ConsentError that says how to give consent.
    """
    _check_bounds(access.url, bounds, levels)
    if (
        bounds
        and protocol.clients_directory is not None
        and protocol.has_host
        and not protocol.has_access_keys
    ):
        _check_silence(access.url, bounds, levels)
    section = json.dumps(protocol.target_section(access, settings))

    def opened(token: str | None) -> Target:
        return Target.open(
            protocol.name,
            section,
            consent_token=token,
            password=access.password,
            ticket=access.ticket,
            identity=access.identity,
            access_key=access.access_key,
            timeout_s=timeout_s,
            max_rate_per_s=bounds.max_rate_per_s if bounds else None,
        )

    target = _consenting(protocol, access, opened)
    if bounds is None and not target.loopback:
        raise UserError(
            f"{access.url} is {target.address}, which is not this machine, so the load needs bounds",
            hint="Add `bounds` to the server in the plan, or use --max-rate.",
        )
    return target


def _check_bounds(url: str, bounds: Bounds | None, levels: Sequence[Level]) -> None:
    for level in levels:
        # Levels that end when their work is done are not checked for length: they are stopped at the bound.
        if bounds and (level.clients > bounds.max_clients or level.planned_s > bounds.max_length_s):
            raise UserError(
                f"load level {level.name}, {level.clients} clients for {level.length_s:g} s, exceeds the bounds "
                f"of {url}: {bounds.max_clients} clients and {bounds.max_length_s:g} s"
            )


def _check_silence(url: str, bounds: Bounds, levels: Sequence[Level]) -> None:
    """Raise UserError if file clients would be silent for so long that servers revoke their locks and leases."""
    most, rate = max((level.clients for level in levels), default=0), bounds.max_rate_per_s
    if most / rate <= MOST_SILENCE_S:
        return
    few = int(MOST_SILENCE_S * rate)
    fewer = f"{few} clients at most, or " if few else ""
    raise UserError(
        f"{url}: {most} clients with {rate:g} requests/s at most would each send a request only every "
        f"{format_duration_s(most / rate)}, but file servers take back what a client holds (locks, leases, oplocks) "
        f"if they hear nothing for about {MOST_SILENCE_S} s",
        hint=f"Use {fewer}a higher rate (--max-rate, or max_rate_per_s in bounds).",
    )


def bounds_of_ours(levels: Sequence[Level]) -> Bounds:
    """Return the bounds for a server that dyno started outside loopback, which exists only for these levels.

    The rate is higher than any server can answer, so that it does not slow the clients.
    """
    return Bounds(
        max_clients=max(level.clients for level in levels),
        max_rate_per_s=MAX_RATE_PER_S,
        max_length_s=max(level.length_s for level in levels),
    )


def token_for(access: Access, *, loopback: bool) -> str | None:
    """Return the token for checking consent: the token of a server that dyno started, or the user's.

    The user's token is created only when needed. Loopback needs none, so a read-only home directory does no harm.
    """
    return access.consent_token or (None if loopback else consent_token())


def _consenting(protocol: Protocol[Any], access: Access, opened: Callable[[str | None], Target]) -> Target:
    url = access.url
    try:
        try:
            return opened(access.consent_token)
        except PermissionError as error:
            if error.errno is not None or access.consent_token is not None:
                raise
            return opened(consent_token())  # the address is not on loopback, although the name suggests it
    except PermissionError as error:
        if error.errno is not None:
            raise _unreachable(url, error) from error
        kind = "object" if protocol.has_access_keys else "file"
        hint = (
            f"Create this {kind} on the server, or ask the person who runs the server to do so. Loopback "
            "needs no consent."
        )
        if access.consent_token is not None:
            hint = "Another program may listen at this address. `ss -ltnp` shows which one."
        raise ConsentError(str(error), hint=hint) from error
    except ValueError as error:
        told = f"{error}" if url in f"{error}" else f"{url}: {error}"
        raise UserError(told, hint=f"A URL is, for example, {protocol.example_url}") from error
    except SessionError as error:
        why, advice = error.args
        raise ServerError(f"{url}: {why}", hint=advice) from error
    except AnswerError as error:
        raise no_answer(url, "the request for consent", error) from error
    except OSError as error:
        raise _unreachable(url, error) from error


def _unreachable(url: str, error: OSError) -> ServerError:
    hint = HINTS.get(error.errno, NOT_RUNNING)
    if error.errno is None and (found := re.match(r"(s3s?)://([\w-]+)(?:/|$)", url)):
        hint += f" If {found[2]} is the bucket, write {found[1]}://HOST:PORT/{found[2]}."
    return ServerError(f"{url} can't be reached: {error.strerror or error}", hint=hint)


def consent_token() -> str:
    """Return the user's secret token, created at first use. A consenting server must have a file of this name.

    Raises UserError if it can't be stored.
    """
    home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    path = Path(home).expanduser() / "serverdyno" / "token"
    try:
        if not path.exists():
            _make_token(path)
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError as error:
        raise UserError(
            f"can't store the consent token in {path}: {error.strerror}",
            hint="Set XDG_CONFIG_HOME to a directory of your own.",
        ) from error


def _make_token(path: Path) -> None:
    """Create the token file atomically, readable only by this user. Of two concurrent creations, the first one wins."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent) as draft:
        draft.write(f"{secrets.token_hex(TOKEN_BYTES)}\n")
        draft.flush()
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(draft.name)
