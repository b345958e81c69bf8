"""What listens in a fleet: Dask's server with handlers of ours alone, for peers that are named beforehand.

Dask's scheduler and worker have dozens of handlers that run what a peer sends, and lists of blocked ones are never
complete. So neither is used, and there are no tasks. Not for: what the handlers do (`scheduler.py`, `node.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from distributed.core import Server

Handler = Callable[..., Awaitable[Any]]


class FleetServer(Server):  # type: ignore[misc]  # without types of its own here
    """Answers requests by their names. What a handler raises is answered with its text."""

    def __init__(self, handlers: Mapping[str, Handler], directory: Path) -> None:
        """`directory`: this user's alone; Dask makes its own in it."""
        super().__init__(
            {},
            blocked_handlers=[],
            stream_handlers={},
            deserialize=False,
            local_directory=str(directory),
            needs_workdir=False,
        )
        # Dask has Python import from its directory, too.
        sys.path.remove(self.local_directory)
        self.handlers = _Handlers(handlers)


class _Handlers(dict[str, Handler]):
    """Those that there are; any other name is answered with a refusal."""

    def __missing__(self, name: object) -> Handler:
        async def refuse(**_: object) -> dict[str, str]:
            return {"refused": f"there is no request {name!r}"}

        return refuse
