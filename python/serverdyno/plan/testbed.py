"""The data of a plan's testbed: hosts in network namespaces of this machine, in subnets whose links have rates.

`fleet/testbed/` creates the testbed. Each host is a node of the testbed's own fleet; the server has an interface in
every subnet.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from serverdyno.errors import UserError
from serverdyno.plan.protocols.model import Model, Spelled

MOST_SUBNETS = 64
MOST_HOSTS = 200
MOST_CLOCK_OFFSET_S = 10 * 365 * 86400.0
NAMESPACES = re.compile(r"namespaces:([1-9][0-9]{0,2})")

SubnetName = Annotated[
    str, Spelled(r"[a-z][a-z0-9]{0,14}", "1 to 15 lower-case letters and digits, beginning with a letter")
]


class Subnet(Model):
    """A switch, its hosts, and the server's interface. Rates apply to each direction and include Ethernet headers."""

    name: SubnetName = Field(description="Name of the subnet. Its hosts are called NAME-1, NAME-2 ...")
    hosts: int = Field(ge=1, le=MOST_HOSTS, description="Number of hosts that generate load.")
    link_mbit_s: float | None = Field(
        default=None,
        ge=0.1,
        le=100_000,
        description="Rate of each host's link in each direction. Default: no limit.",
    )
    server_link_mbit_s: float | None = Field(
        default=None,
        ge=0.1,
        le=100_000,
        description="Rate of the server's link in this subnet in each direction. Default: no limit.",
    )
    delay_ms: float = Field(
        default=0,
        ge=0,
        le=10_000,
        description="Delay on each host's link in each direction; requires the kernel's netem.",
    )
    loss_percent: float = Field(
        default=0,
        ge=0,
        lt=100,
        description="Percentage of packets lost on each host's link in each direction; requires the "
        "kernel's netem.",
    )
    clock_offset_s: list[Annotated[float, Field(ge=-MOST_CLOCK_OFFSET_S, le=MOST_CLOCK_OFFSET_S)]] = Field(
        default=[],
        description="Offset of each host's monotonic clock from this machine's, one number per host. "
        "Default: 0.",
    )

    @model_validator(mode="after")
    def _has_a_clock_for_each_offset(self) -> Self:
        if len(self.clock_offset_s) > self.hosts:
            raise ValueError(f"{len(self.clock_offset_s)} clock offsets, but only {self.hosts} hosts")
        return self

    def host_names(self) -> list[str]:
        return [f"{self.name}-{number}" for number in range(1, self.hosts + 1)]

    def offset_s(self, host: int) -> float:
        """Return the offset of a host's clock. Hosts are numbered from 0."""
        return self.clock_offset_s[host] if host < len(self.clock_offset_s) else 0.0


class Testbed(Model):
    """Hosts on this machine that generate the load, each with its own network."""

    __test__: ClassVar[bool] = False  # pytest would take the class for a test

    subnets: list[Subnet] = Field(
        min_length=1, max_length=MOST_SUBNETS, description="Subnets, each with its own switch."
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        names = [subnet.name for subnet in self.subnets]
        if len(set(names)) < len(names):
            raise ValueError("two subnets have the same name")
        if (hosts := sum(subnet.hosts for subnet in self.subnets)) > MOST_HOSTS:
            raise ValueError(f"the subnets have {hosts} hosts in all; the limit is {MOST_HOSTS}")
        return self

    def mbit_s(self, hosts: Collection[str]) -> float:
        """Return what the links between the server and some hosts carry in each direction; infinite without a limit."""
        return sum(
            min(
                subnet.server_link_mbit_s or math.inf,
                sum(subnet.link_mbit_s or math.inf for name in subnet.host_names() if name in hosts),
            )
            for subnet in self.subnets
        )

    def host_names(self) -> list[str]:
        """Return the names of all hosts, taken from each subnet in turn.

        Clients are distributed in this order, so that any number of clients is divided evenly among the subnets.
        """
        columns = [subnet.host_names() for subnet in self.subnets]
        return [
            column[row] for row in range(max(map(len, columns))) for column in columns if row < len(column)
        ]


def of_option(text: str) -> Testbed:
    """Return the testbed of `--testbed namespaces:N`: N hosts in one subnet without a rate limit.

    Raises UserError.
    """
    found = NAMESPACES.fullmatch(text)
    if found is None or int(found[1]) > MOST_HOSTS:
        raise UserError(
            f"--testbed: unknown value {text!r}; expected namespaces:N, with N from 1 to {MOST_HOSTS}",
            hint="To set subnets and rates, use [[testbed.subnets]] in the plan.",
        )
    return Testbed(subnets=[Subnet(name="lan", hosts=int(found[1]))])
