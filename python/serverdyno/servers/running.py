"""A server for the length of a `with` block: started, proven to be ours, and stopped whatever happens."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from serverdyno.servers import abandoned, registry
from serverdyno.servers.base import ServerDriver
from serverdyno.servers.documents import document_root

Driver = TypeVar("Driver", bound=ServerDriver)


@contextmanager
def running(
    name: str,
    settings: Mapping[str, Any],
    *,
    cpus: Sequence[int] = (),
    url: str | None = None,
    address: str | None = None,
) -> Iterator[ServerDriver]:
    """The server called `name`, ready for load. Raises UserError or ServerError, with nothing left running.

    `address`: of this machine, where one of ours listens in place of loopback.
    """
    settings_type = registry.driver_type(name).settings_type
    documents = document_root() if settings_type.needs_documents else Path(os.devnull)
    abandoned.sweep_once()
    server = registry.create(name, settings, documents=documents, cpus=cpus, url=url)
    if address is not None and url is None:
        server.listen_on(address)
    with started(server):
        yield server


@contextmanager
def started(server: Driver) -> Iterator[Driver]:
    """It, ready for load. Raises UserError or ServerError, with nothing left running."""
    try:
        server.prepare()
        server.start()
        server.ready()
        yield server
    finally:
        server.stop()
