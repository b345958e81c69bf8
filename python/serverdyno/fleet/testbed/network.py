"""The network of a testbed as text for ip(8) and tc(8): addresses, switches, links and their rates.

Each host has two links. `lan` goes to the switch of its subnet and carries the load, at the plan's rate. `control` goes
to an unlimited switch of all hosts, so that load does not delay control messages. The server has an interface in each
subnet and one address, `SERVICE`, which every host reaches through the interface in its own subnet. `hosts.py` creates
the namespaces.

Both programs accept a batch of commands, and report problems as text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

from serverdyno.plan.testbed import Subnet, Testbed

SERVICE = "10.76.0.1"
"""The server's address, reached through any of its interfaces."""
CONTROL = IPv4Network("10.77.0.0/16")
SUBNETS = IPv4Network("10.78.0.0/16")
SUBNET_BITS = 24
SERVER, SWITCH = "server", "switch"
BURST_S = 0.004
LEAST_BURST_BYTES = 4096
QUEUE_MS = 50
"""Length of a link's queue, as a time: a packet that would wait longer is dropped."""


@dataclass(frozen=True, slots=True)
class Leg:
    """The end of a link at a host: the host, the interface's name and its address."""

    host: str
    port: str
    interface: str
    address: str
    rate_mbit_s: float | None = None
    delay_ms: float = 0.0
    loss_percent: float = 0.0

    def queues(self, device: str) -> Iterator[str]:
        """Yield the tc(8) commands that limit the packets sent by `device`, which is either end of the link."""
        parent = "root"
        if self.delay_ms or self.loss_percent:
            yield f"qdisc add dev {device} root handle 1: netem delay {self.delay_ms}ms loss {self.loss_percent}%"
            parent = "parent 1:"
        if self.rate_mbit_s is not None:
            bits = round(self.rate_mbit_s * 1e6)
            burst = max(LEAST_BURST_BYTES, round(bits / 8 * BURST_S))
            yield f"qdisc add dev {device} {parent} handle 2: tbf rate {bits}bit burst {burst}b latency {QUEUE_MS}ms"


@dataclass(frozen=True, slots=True)
class Switch:
    """A bridge and the links connected to it."""

    bridge: str
    legs: tuple[Leg, ...]


@dataclass(frozen=True, slots=True)
class Network:
    """All switches. The first one has the control links.

    `gateways` maps a host to the server's address in its subnet.
    """

    switches: tuple[Switch, ...]
    gateways: Mapping[str, str]

    @property
    def controller(self) -> str:
        """The server's address on the control links, at which the nodes reach their scheduler."""
        return address_in(CONTROL, 0)

    def switch_batch(self, pids: Mapping[str, int]) -> str:
        """Return the ip(8) batch for the switch: bridges, and links whose other ends move to the hosts."""
        lines = ["link set lo up"]
        for switch in self.switches:
            lines += [f"link add name {switch.bridge} type bridge", f"link set {switch.bridge} up"]
            for leg in switch.legs:
                other = f"peer name {leg.interface} netns {pids[leg.host]}"
                lines += [
                    f"link add name {leg.port} type veth {other}",
                    f"link set {leg.port} master {switch.bridge}",
                    f"link set {leg.port} up",
                ]
        return batch(lines)

    def host_batch(self, host: str) -> str:
        """Return the ip(8) batch for a host or the server: its addresses and the route to the server."""
        lines = ["link set lo up"]
        for leg in self.legs_of(host):
            lines += [f"address add {leg.address} dev {leg.interface}", f"link set {leg.interface} up"]
        if host == SERVER:
            lines.append(f"address add {SERVICE}/32 dev lo")
        else:
            lines.append(f"route add {SERVICE}/32 via {self.gateways[host]}")
        return batch(lines)

    def queue_batch(self, host: str) -> str:
        """Return the tc(8) batch that limits the packets sent by a host; for the switch, the packets to each host."""
        if host == SWITCH:
            ports = (leg for switch in self.switches for leg in switch.legs)
            return batch([line for leg in ports for line in leg.queues(leg.port)])
        return batch([line for leg in self.legs_of(host) for line in leg.queues(leg.interface)])

    def legs_of(self, host: str) -> list[Leg]:
        """Return every link of a host or the server, the control link first."""
        return [leg for switch in self.switches for leg in switch.legs if leg.host == host]


def batch(lines: list[str]) -> str:
    """Return the lines as a batch for ip(8) or tc(8); empty text without lines."""
    return "".join(f"{line}\n" for line in lines)


def network_of(testbed: Testbed) -> Network:
    names = [name for subnet in testbed.subnets for name in subnet.host_names()]
    control = [
        Leg(name, f"c{number}", "control", with_length(CONTROL, number))
        for number, name in enumerate([SERVER, *names])
    ]
    switches, ports = [Switch("control", tuple(control))], 0
    gateways: dict[str, str] = {}
    parts = SUBNETS.subnets(new_prefix=SUBNET_BITS)
    for number, (subnet, part) in enumerate(zip(testbed.subnets, parts, strict=False)):
        server = Leg(SERVER, f"s{number}", f"lan{number}", with_length(part, 0), subnet.server_link_mbit_s)
        legs = [
            host_leg(subnet, name, ports + row, part, row) for row, name in enumerate(subnet.host_names())
        ]
        ports += len(legs)
        gateways |= {leg.host: address_in(part, 0) for leg in legs}
        switches.append(Switch(f"subnet{number}", (server, *legs)))
    return Network(tuple(switches), gateways)


def host_leg(subnet: Subnet, name: str, port: int, part: IPv4Network, row: int) -> Leg:
    """Return the link of a host to the switch of its subnet."""
    limits = (subnet.link_mbit_s, subnet.delay_ms, subnet.loss_percent)
    return Leg(name, f"p{port}", "lan", with_length(part, 1 + row), *limits)


def address_in(part: IPv4Network, number: int) -> str:
    """Return a network's address by number, from 0. Number 0 is the server's."""
    return f"{IPv4Address(int(part.network_address) + 1 + number)}"


def with_length(part: IPv4Network, number: int) -> str:
    """Return a network's address by number, followed by the prefix length."""
    return f"{address_in(part, number)}/{part.prefixlen}"
