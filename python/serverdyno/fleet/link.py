"""Check a scheduler before connecting: whether it can be reached, uses TLS, and accepts this certificate.

Dask would report every problem as a timeout; this module has a message for each.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path

from serverdyno.errors import DynoError, UserError
from serverdyno.fleet import certificates
from serverdyno.fleet.address import host_and_port
from serverdyno.fleet.contract import FleetError
from serverdyno.fleet.folder import SCHEDULER

PATIENCE_S = 5.0
TRY_AGAIN_S = 0.1
"""Time between two attempts to reach the scheduler."""


class NobodyThere(FleetError):  # noqa: N818  # expected while a scheduler starts
    """Nothing accepts connections at the scheduler's address yet."""


def context(folder: Path) -> ssl.SSLContext:
    """Return a TLS context with the certificate in a folder. Raises UserError if it can't be used."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Trust only the fleet's own authority. The host name is not checked, because nodes are found by their
    # addresses.
    made.check_hostname, made.verify_mode = False, ssl.CERT_REQUIRED
    # In TLS 1.3, a client is told only after the handshake, at an unknown time, that its certificate was
    # refused (RFC 8446, section 4.4.2.4); in TLS 1.2, the handshake fails. The fleet's other connections use
    # the newest version.
    made.maximum_version = ssl.TLSVersion.TLSv1_2
    try:
        made.load_verify_locations(folder / certificates.AUTHORITY)
        made.load_cert_chain(folder / certificates.CERTIFICATE, folder / certificates.KEY)
    except (OSError, ssl.SSLError) as error:
        raise UserError(f"the certificate in {folder} can't be used: {error}") from error
    return made


def check(at: str, folder: Path) -> None:
    """Raise DynoError unless the scheduler at `at` (host:port) accepts the certificate in `folder`."""
    certificates.check_valid(folder)
    try:
        with (
            socket.create_connection(host_and_port(at), PATIENCE_S) as plain,
            context(folder).wrap_socket(plain) as secured,
        ):
            name = certificates.name_of(secured.getpeercert())
    except ssl.SSLCertVerificationError as error:
        raise DynoError(
            f"the scheduler at {at} shows a certificate that does not belong to this fleet: {error.verify_message}",
            hint="The scheduler may belong to another fleet, or may have started before its certificates "
            "were renewed.",
        ) from error
    except ssl.SSLError as error:
        reason = (error.reason or str(error)).lower().replace("_", " ")
        raise DynoError(
            f"the scheduler at {at} refused this certificate or does not speak TLS: {reason}",
            hint=f"Copy the node's folder again from the scheduler's fleet: {folder}",
        ) from error
    except OSError as error:
        raise NobodyThere(
            f"no answer from the fleet's scheduler at {at}: {error}",
            hint="Start the scheduler on that machine: dyno fleet up FOLDER.",
        ) from error
    if name != SCHEDULER:
        raise DynoError(
            f"the program at {at} has the certificate of {name}, not that of the fleet's scheduler",
            hint="Find out which program that is, because it uses a certificate that was issued for another "
            "purpose.",
        )


def wait_for(at: str, folder: Path, patience_s: float, is_alive: Callable[[], bool] = lambda: True) -> None:
    """Wait until the scheduler answers. Raises DynoError as `check` does; NobodyThere if it has ended or time is up."""
    until = time.monotonic() + patience_s
    while True:
        try:
            return check(at, folder)
        except NobodyThere:
            if time.monotonic() >= until or not is_alive():
                raise
        time.sleep(TRY_AGAIN_S)
