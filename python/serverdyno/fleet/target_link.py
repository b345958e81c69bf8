"""The link by which a node reaches its target, and whether it carries anything: a cable that is pulled makes no error.

Packets are sent again until a client's time limit, and a stalled mix looks like a slow server. Not for: a link to the
controller, whose silence is loss (`cluster.py`).
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import time

import psutil

from serverdyno.fleet.address import host_and_port

CHECK_LINK_S = 0.5
"""The least from one question to the kernel whether the link is up to the next."""


class TargetLink:
    """One network interface. `name` is None where the way to the target is not known, as to a directory."""

    def __init__(self, address: str) -> None:
        """`address`: of the target, with its port. No packet is sent."""
        self.name: str | None = None
        self._looked_s, self._is_down = 0.0, False
        with contextlib.suppress(OSError, ValueError):
            self.name = _interface_to(*host_and_port(address))

    def is_down(self) -> bool:
        """Whether it carries nothing now; as of the last half second."""
        if self.name is not None and time.monotonic() - self._looked_s >= CHECK_LINK_S:
            self._looked_s = time.monotonic()
            stats = psutil.net_if_stats().get(self.name)
            self._is_down = stats is None or not stats.isup
        return self._is_down


def _interface_to(host: str, port: int) -> str | None:
    there = ipaddress.ip_address(host)
    family = socket.AF_INET if there.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((host, port))
        own = probe.getsockname()[0]
    found: dict[str, list[str]] = {
        name: [each.address.partition("%")[0] for each in addresses]
        for name, addresses in psutil.net_if_addrs().items()
    }
    return next((name for name, addresses in found.items() if own in addresses), None)
