"""How Dask distributed is used: as membership and transport between machines, with TLS on both sides and nothing else.

No task of Dask's ever runs: a node answers requests of ours (`node.py`), so nothing is retried or moved behind us. What
Dask would do besides that, profiling, pages, spilling, is switched off. Imported only where there is a fleet.
"""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from typing import Any

import dask
from distributed import Security

from serverdyno.fleet import certificates

CONNECT_S = 20.0
"""For a TLS handshake with a machine that is short of CPU time. Who is gone is noticed before (`cluster.py`)."""
HEARTBEAT_S = 8.0
"""From one word of a node to the scheduler to the next: 0.5 s by Dask's own rule, and 620 bytes each."""
SETTINGS: dict[str, Any] = {
    "distributed.admin.event-loop": "asyncio",
    "distributed.admin.system-monitor.disk": False,
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.admin.system-monitor.interval": "5s",
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.tick.limit": "10s",
    "distributed.comm.retry.count": 0,
    "distributed.comm.timeouts.connect": f"{CONNECT_S:g}s",
    "distributed.comm.timeouts.tcp": "20s",
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.worker-ttl": f"{3 * HEARTBEAT_S:g}s",
    "distributed.scheduler.blocked-handlers": [
        "feed",
        "register_nanny_plugin",
        "register_scheduler_plugin",
        "register_worker_plugin",
        "run_function",
    ],
    "distributed.worker.blocked-handlers": [
        "actor_execute",
        "plugin-add",
        "run",
        "run_coroutine",
        "upload_file",
    ],
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.terminate": False,
    "distributed.worker.profile.enabled": False,
}


class RefusedConnections(logging.Handler):
    """Counts those that came without a certificate of the fleet, or without TLS; Dask says so in its log alone."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Look at one line: listener, peer, error. Who only hangs up has not been refused."""
        error = record.args[-1] if isinstance(record.args, tuple) and record.args else None
        if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
            self.count += 1


def prepare() -> RefusedConnections:
    """Set everything for this process; what its listeners refuse is counted. Errors alone are logged."""
    dask.config.set(SETTINGS)
    refused = RefusedConnections()
    for name in ("distributed", "distributed.client", "distributed.comm.tcp", "tornado"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [logging.NullHandler()], False
    logging.getLogger("distributed.comm.tcp").addHandler(refused)
    return refused


def security(folder: Path) -> Security:
    """TLS with the certificate in a folder, and with nobody who has none of the same authority."""
    certificate, key = str(folder / certificates.CERTIFICATE), str(folder / certificates.KEY)
    return Security(
        require_encryption=True,
        tls_ca_file=str(folder / certificates.AUTHORITY),
        **{
            f"tls_{role}_{part}": path
            for role in ("client", "scheduler", "worker")
            for part, path in (("cert", certificate), ("key", key))
        },
    )
