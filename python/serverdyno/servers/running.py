"""A server for the duration of a `with` block: it is started, its identity is proven, and it is always stopped."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

from serverdyno.errors import ServerError
from serverdyno.probes import abandoned
from serverdyno.servers import registry, waiting
from serverdyno.servers.base import ServerDriver
from serverdyno.servers.documents import document_root
from serverdyno.servers.local import LocalServer
from serverdyno.servers.web import Behind

Driver = TypeVar("Driver", bound=ServerDriver)


@contextmanager
def running(  # noqa: PLR0913 (what a server is given)
    name: str,
    settings: Mapping[str, Any],
    *,
    cpus: Sequence[int] = (),
    url: str | None = None,
    address: str | None = None,
    token: str | None = None,
    backs: Sequence[Behind] = (),
) -> Iterator[ServerDriver]:
    """Yield the server called `name`, ready for load. Raises UserError or ServerError, with nothing left running.

    `address` is the address of this machine on which a server that dyno starts listens instead of loopback. `token`
    is its consent token on a node of a fleet. `backs` are servers behind a front that run elsewhere.
    """
    settings_type = registry.driver_type(name).settings_type
    documents = document_root() if settings_type.needs_documents else Path(os.devnull)
    abandoned.sweep_once()
    server = registry.create(name, settings, documents=documents, cpus=cpus, url=url)
    if token is not None:
        on_node(server, token, backs)
    if address is not None and url is None:
        server.listen_on(address)
    with started(server):
        yield server


def on_node(server: ServerDriver, token: str, backs: Sequence[Behind]) -> None:
    """Give a server its consent token, and a front the servers behind it. Raises DynoError."""
    from serverdyno.servers.team import Team  # noqa: PLC0415 (it imports every web server)

    if isinstance(server, Team) and backs:
        server.stand_before(backs)
    if isinstance(server, Team | LocalServer):
        server.consent_to(token)


@contextmanager
def started(server: Driver) -> Iterator[Driver]:
    """Yield the server, ready for load. Raises UserError or ServerError, with nothing left running.

    If the server ends, every wait in the block ends, too. This does not apply to a server that the user runs.
    """
    is_ours = not server.settings_type.is_external
    try:
        try:
            server.prepare()
            server.start()
            server.ready()
        except OSError as error:  # for example, the disk is full
            raise ServerError(f"{server.name} can't be started: {error}") from error
        with waiting.ended_by(server.check) if is_ours else nullcontext():
            yield server
    finally:
        server.stop()
