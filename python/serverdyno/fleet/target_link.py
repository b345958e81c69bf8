"""Check the network link between a node and its target, because a pulled cable causes no error.

Packets are retransmitted until a client's timeout, so a level without a link looks like a level with a slow server.
`cluster.py` handles the loss of the link to the controller.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import time

import psutil

from serverdyno.fleet.address import host_and_port

CHECK_LINK_S = 0.5
"""Minimum time between two checks of the link."""


class TargetLink:
    """A network interface. `name` is None if there is no known route to the target, for example for a directory."""

    def __init__(self, address: str) -> None:
        """Find the interface. `address` is the target's address with its port. No packet is sent."""
        self.name: str | None = None
        self._looked_s, self._is_down = 0.0, False
        with contextlib.suppress(OSError, ValueError):
            self.name = _interface_to(*host_and_port(address))

    def is_down(self) -> bool:
        """Return whether the link was down at the last check, at most half a second ago."""
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
