"""A testbed for the duration of a block: hosts, network, and the fleet whose nodes are the hosts.

During the block, the tool itself is in the server's network namespace, so that servers that it starts are reached
over the testbed's links.
"""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import serverdyno
from serverdyno.errors import DynoError, UserError
from serverdyno.fleet import cluster, link
from serverdyno.fleet.folder import CONTROLLER, SCHEDULER_LOG, FleetFolder, create
from serverdyno.fleet.testbed.hosts import START_S, Host, check_possible
from serverdyno.fleet.testbed.network import QUEUE_MS, SERVER, SERVICE, SWITCH, Network, network_of
from serverdyno.plan.testbed import Testbed

CLONE_NEWNET = 0x40000000  # linux/sched.h
OWN_NETWORK = "/proc/thread-self/ns/net"
DAYS = 2.0
"""Validity of a testbed's certificates: longer than any experiment on it."""
JOIN_S, JOIN_EACH_S = 30.0, 5.0
"""Time for nodes to join, in total and per node: all start at once on the CPUs of one machine."""


@dataclass(frozen=True, slots=True)
class StandingTestbed:
    """A testbed in use: the folder of its fleet, and the address on which servers listen."""

    fleet: FleetFolder
    address: str
    hosts: dict[str, Host]
    network: Network
    disclosed: dict[str, dict[str, Any]]

    def pull(self, host: str, *interfaces: str) -> None:
        """Set the switch ports of a host's interfaces down, like unplugged cables."""
        for leg in self.network.legs_of(host):
            if leg.interface in interfaces:
                self.hosts[SWITCH].run("ip", "link", "set", leg.port, "down")


@contextmanager
def standing(testbed: Testbed) -> Iterator[StandingTestbed]:
    """Create a testbed whose nodes have all joined its fleet, and remove it at the end. Raises DynoError.

    During the block, the calling thread and the processes that it starts are in the server's network namespace.
    """
    check_possible()
    with ExitStack() as stack:
        hosts = _made(testbed, stack)
        network = network_of(testbed)
        _connect(testbed, network, hosts)
        stack.enter_context(inside(hosts[SERVER].network))
        # The switch host is created first and ends last, so it can remove the folder after all others have
        # stopped writing.
        folder = Path(tempfile.mkdtemp(prefix="serverdyno-testbed-"))
        hosts[SWITCH].remove_at_end(folder)
        names = testbed.host_names()
        fleet = create(folder / "testbed", network.controller, names, DAYS)
        _start_fleet(fleet, hosts)
        yield StandingTestbed(fleet, SERVICE, hosts, network, disclosed(testbed, network))


def _made(testbed: Testbed, stack: ExitStack) -> dict[str, Host]:
    """Start every host, including the switch and the server, and wait until all are ready."""
    hosts: dict[str, Host] = {}
    wanted = {
        SWITCH: 0.0,
        SERVER: 0.0,
        **{
            name: subnet.offset_s(row)
            for subnet in testbed.subnets
            for row, name in enumerate(subnet.host_names())
        },
    }
    for name, offset_s in wanted.items():
        hosts[name] = Host(name, clock_offset_s=offset_s)
        stack.callback(hosts[name].end)
    for host in hosts.values():
        host.wait_until_ready()
    return hosts


def _connect(testbed: Testbed, network: Network, hosts: dict[str, Host]) -> None:
    hosts[SWITCH].run("ip", "-batch", "-", text=network.switch_batch({n: h.pid for n, h in hosts.items()}))
    for name, host in hosts.items():
        if name != SWITCH:
            host.run("ip", "-batch", "-", text=network.host_batch(name))
        if queues := network.queue_batch(name):
            try:
                host.run("tc", "-batch", "-", text=queues)
            except DynoError as error:
                raise _no_queues(testbed, error) from error


def _no_queues(testbed: Testbed, error: DynoError) -> DynoError:
    """Return an error that names the link property that this kernel does not support."""
    if "netem" in str(error) and "unknown" in str(error):
        wanted = [subnet.name for subnet in testbed.subnets if subnet.delay_ms or subnet.loss_percent]
        return UserError(
            f"this kernel has no netem (sch_netem), which {', '.join(wanted)} needs to delay and drop "
            "packets",
            hint="Remove delay_ms and loss_percent from the plan, or use a kernel with netem.",
        )
    return DynoError(
        f"can't set the rates of the testbed's links: {error}",
        hint="Check that this kernel has tbf (sch_tbf).",
    )


@contextmanager
def inside(network: Path) -> Iterator[None]:
    """Move the calling thread, and everything that it starts, to a network namespace during the block.

    Raises DynoError.
    """
    with Path(OWN_NETWORK).open("rb") as own, network.open("rb") as other:
        _enter(other.fileno())
        try:
            yield
        finally:
            _enter(own.fileno())


def _enter(namespace: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(namespace, CLONE_NEWNET) != 0:
        raise DynoError(f"can't enter the server's network namespace: {os.strerror(ctypes.get_errno())}")


def _start_fleet(fleet: FleetFolder, hosts: dict[str, Host]) -> None:
    """Start the scheduler on the server's host and a node on every other host, and wait until all have joined."""
    path = {"PYTHONPATH": str(Path(serverdyno.__file__).parent.parent), "TMPDIR": str(fleet.path.parent)}
    scheduler = [sys.executable, "-m", "serverdyno.fleet.scheduler", str(fleet.path.resolve())]
    hosts[SERVER].begin(scheduler, fleet.path / SCHEDULER_LOG, path)
    link.wait_for(fleet.at, fleet.path / CONTROLLER, START_S)
    for name in fleet.nodes:
        node = [sys.executable, "-m", "serverdyno", "node", str(fleet.node(name))]
        hosts[name].begin(node, log_of(fleet, name), path)
    with cluster.connected(fleet) as connection:
        patience_s = JOIN_S + JOIN_EACH_S * len(fleet.nodes)
        there = cluster.wait_for(connection, fleet.nodes, patience_s)
    if missing := [name for name in fleet.nodes if name not in there]:
        words = log_of(fleet, missing[0]).read_text(errors="replace").strip().splitlines()
        raise DynoError(
            f"{len(missing)} of {len(fleet.nodes)} nodes of the testbed did not join within {patience_s:g} "
            "s; "
            f"{missing[0]} says: {words[-1] if words else 'nothing'}",
            hint="Use fewer hosts: each needs about 40 MB, and one second of CPU time to start.",
        )


def log_of(fleet: FleetFolder, name: str) -> Path:
    return fleet.node(name) / "node.log"


def disclosed(testbed: Testbed, network: Network) -> dict[str, dict[str, Any]]:
    """Return the facts about the network to disclose, for the server and each subnet. None means no limit."""
    return {
        "server": {"address": SERVICE, "queue_of_each_link_ms": QUEUE_MS},
        **{
            f"subnet {subnet.name}": {
                "hosts": subnet.host_names(),
                "server_leg": network.gateways[subnet.host_names()[0]],
                **subnet.model_dump(exclude={"name", "hosts"}),
            }
            for subnet in testbed.subnets
        },
    }
