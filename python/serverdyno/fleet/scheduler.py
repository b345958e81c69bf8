"""The scheduler of a fleet: where its nodes meet; `python -m serverdyno.fleet.scheduler FOLDER`, started by `up.py`.

It knows who is there, and no load passes through it. It stays until SIGINT or SIGTERM.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from distributed import Scheduler

from serverdyno.fleet import dask_settings
from serverdyno.fleet.address import host_and_port
from serverdyno.fleet.dask_settings import HEARTBEAT_S
from serverdyno.fleet.folder import RUNNING, SCHEDULER, FleetFolder


class FleetScheduler(Scheduler):  # type: ignore[misc]  # without types of its own here
    """Dask's, but its members say less often that they are there: whoever uses a node pings it (`cluster.py`)."""

    def heartbeat_worker(self, *arguments: Any, **metrics: Any) -> dict[str, Any]:
        """Take note of a member, and say when it is to tell again."""
        told: dict[str, Any] = super().heartbeat_worker(*arguments, **metrics)
        return told | {"heartbeat-interval": HEARTBEAT_S}


async def serve(folder: FleetFolder) -> None:
    """Listen until the end. Once it listens, its process id stands in the folder."""
    refused = dask_settings.prepare()
    host, port = host_and_port(folder.at)
    scheduler = FleetScheduler(
        host=host,
        port=port,
        protocol="tls",
        security=dask_settings.security(folder.path / SCHEDULER),
        dashboard=False,
    )
    end = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, end.set)

    async def dyno_refused() -> str:
        return json.dumps(refused.count)

    scheduler.handlers["dyno_refused"] = dyno_refused
    async with scheduler:
        running = folder.path / RUNNING
        running.write_text(f"{os.getpid()}\n")
        try:
            await end.wait()
        finally:
            running.unlink(missing_ok=True)


if __name__ == "__main__":
    asyncio.run(serve(FleetFolder.open(Path(sys.argv[1]))))
