"""Settings of Dask distributed, which is used only for servers and mutual TLS connections between machines.

Dask's scheduler, workers and client are not used, and no Dask task ever runs (`answering.py`): `scheduler.py` keeps
the list of members, and `node.py` answers requests. This module is imported only if there is a fleet.
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
"""Time limit of a TLS handshake, for machines short of CPU time. `cluster.py` notices a lost machine earlier."""
GONE_S = 20
"""A connection is closed if the other machine's kernel has acknowledged nothing for this time."""
SETTINGS: dict[str, Any] = {
    "distributed.admin.system-monitor.disk": False,
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.comm.timeouts.connect": f"{CONNECT_S:g}s",
    "distributed.comm.timeouts.tcp": f"{GONE_S}s",
    "distributed.worker.profile.enabled": False,
}


class RefusedConnections(logging.Handler):
    """Counts connections without TLS or without a certificate of the fleet, which Dask only logs.

    `plain_comm.py` counts connections whose certificate has a name that is not allowed.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Examine the error of one log record. A peer that only closes the connection was not refused."""
        error = record.args[-1] if isinstance(record.args, tuple) and record.args else None
        if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
            self.count += 1


def prepare() -> RefusedConnections:
    """Configure Dask for this process. It then logs only errors, and refused connections are counted."""
    dask.config.set(SETTINGS)
    plain_comm.install()
    refused = RefusedConnections()
    for name in ("distributed", "distributed.comm.tcp", "tornado"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [logging.NullHandler()], False
    logging.getLogger("distributed.comm.tcp").addHandler(refused)
    return refused


def address_of(at: str) -> str:
    """Return an address as Dask writes it. `at` is HOST:PORT."""
    return f"{plain_comm.SCHEME}://{at}"


def connecting(folder: Path, peer: str, most_bytes: int) -> dict[str, Any]:
    """Return the arguments of connections to one peer. `folder` contains the certificate to present."""
    return {**_security(folder).get_connection_args("client"), "peer": peer, "most_bytes": most_bytes}


def listening(
    folder: Path, peers: frozenset[str], most_bytes: int, refused: RefusedConnections
) -> dict[str, Any]:
    """Return the arguments of a listener. `peers` are the names that may connect."""
    own = {"peers": peers, "most_bytes": most_bytes, "refused": refused}
    return {**_security(folder).get_listen_args("worker"), **own}


def _security(folder: Path) -> Security:
    """Return TLS settings that present the certificate in a folder and accept only the same authority."""
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
