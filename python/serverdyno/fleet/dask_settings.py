"""How Dask distributed is used: as servers and connections between machines, with TLS on both sides and nothing else.

Its scheduler, workers and client are not used, and no task ever runs (`answering.py`): who is a member is kept by
`scheduler.py`, a node answers requests of ours (`node.py`). Imported only where there is a fleet.
"""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from typing import Any

import dask
from distributed import Security

from serverdyno.fleet import certificates, plain_comm

CONNECT_S = 20.0
"""For a TLS handshake with a machine that is short of CPU time. Who is gone is noticed before (`cluster.py`)."""
GONE_S = 20
"""A connection is given up when the other machine's kernel has answered nothing for so long."""
SETTINGS: dict[str, Any] = {
    "distributed.admin.system-monitor.disk": False,
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.comm.timeouts.connect": f"{CONNECT_S:g}s",
    "distributed.comm.timeouts.tcp": f"{GONE_S}s",
    "distributed.worker.profile.enabled": False,
}


class RefusedConnections(logging.Handler):
    """Counts those that came without a certificate of the fleet, or without TLS, which Dask says in its log alone.

    Connections with the certificate of somebody who has no business there are counted by `plain_comm.py`.
    """

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
    plain_comm.install()
    refused = RefusedConnections()
    for name in ("distributed", "distributed.comm.tcp", "tornado"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [logging.NullHandler()], False
    logging.getLogger("distributed.comm.tcp").addHandler(refused)
    return refused


def address_of(at: str) -> str:
    """Return an address as Dask writes it. `at`: HOST:PORT."""
    return f"{plain_comm.SCHEME}://{at}"


def connecting(folder: Path, peer: str, most_bytes: int) -> dict[str, Any]:
    """Return what connections to one peer are made with. `folder`: with our certificate."""
    return {**_security(folder).get_connection_args("client"), "peer": peer, "most_bytes": most_bytes}


def listening(
    folder: Path, peers: frozenset[str], most_bytes: int, refused: RefusedConnections
) -> dict[str, Any]:
    """Return what is listened with. `peers`: names of those who may connect."""
    own = {"peers": peers, "most_bytes": most_bytes, "refused": refused}
    return {**_security(folder).get_listen_args("worker"), **own}


def _security(folder: Path) -> Security:
    """TLS with the certificate in a folder, and with nobody who has none of the same authority."""
    certificate, key = str(folder / certificates.CERTIFICATE), str(folder / certificates.KEY)
    return Security(
        require_encryption=True,
        tls_ca_file=str(folder / certificates.AUTHORITY),
        **{
            f"tls_{role}_{part}": path
            for role in ("client", "worker")
            for part, path in (("cert", certificate), ("key", key))
        },
    )
