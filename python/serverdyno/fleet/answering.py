"""The RPC server in a fleet's processes: Dask's server with only the fleet's own handlers.

Dask's scheduler and worker have dozens of handlers that execute code from a peer, and no list of blocked handlers is
complete. So neither is used, and there are no Dask tasks. `scheduler.py` and `node.py` contain the handlers.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from distributed.core import Server

Handler = Callable[..., Awaitable[Any]]


class FleetServer(Server):  # type: ignore[misc]  # Dask has no types
    """A server that answers requests by name. If a handler raises an exception, the answer is the exception's text."""

    def __init__(self, handlers: Mapping[str, Handler], directory: Path) -> None:
        """Create the server. Dask creates its own directory in `directory`, which only this user may access."""
        super().__init__(
            {},
            blocked_handlers=[],
            stream_handlers={},
            deserialize=False,
            local_directory=str(directory),
            needs_workdir=False,
        )
        # Dask adds its directory to Python's import path.
        sys.path.remove(self.local_directory)
        self.handlers = _Handlers(handlers)


class _Handlers(dict[str, Handler]):
    """The handlers by name. Any other name is refused."""

    def __missing__(self, name: object) -> Handler:
        async def refuse(**_: object) -> dict[str, str]:
            return {"refused": f"unknown request {name!r}"}

        return refuse
