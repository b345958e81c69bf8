"""A private object server for tests. A server that is not installed is skipped."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from serverdyno.servers.object_server import ObjectServer
from serverdyno.servers.registry import DRIVERS, create
from serverdyno.servers.running import started


@contextmanager
def running(name: str, settings: dict[str, Any]) -> Iterator[ObjectServer[Any]]:
    if DRIVERS[name].installed() is None:
        pytest.skip(f"{name} is not installed here: run make servers-objects")
    server = create(name, settings, documents=Path(os.devnull))
    assert isinstance(server, ObjectServer)
    with started(server):
        yield server
