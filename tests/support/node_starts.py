"""Measure the time between the starts of a testbed's nodes, by the server's own log.

Each node has its own clock, and one client with a long think time, so that a lack of CPU time is not the cause. Apache
logs the microsecond at which each request arrived, by a single clock, so errors of the nodes' clock offsets are
included. Every record contains the nodes' own reports of their starts.
"""

from __future__ import annotations

import re
import secrets
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benches.levels import document, http_target

from serverdyno.fleet.clock import ClockOffset
from serverdyno.fleet.membership import fleet_at
from serverdyno.fleet.testbed.standing import standing
from serverdyno.plan.model import GeneratorPlan
from serverdyno.plan.open_load import MAX_RATE_PER_S
from serverdyno.plan.testbed import Subnet, Testbed
from serverdyno.servers.apache import Apache, ApacheSettings
from serverdyno.servers.documents import document_root
from serverdyno.servers.running import started
from serverdyno.servers.web import ACCESS_LOG

OFFSETS_S = (0.0, 7200.05, 36000.1, -59.85)
"""Clock offsets: up to hours, and at least 50 ms apart. A clock can't be behind by more than the machine's uptime."""
LENGTH_S, THINK_S = 0.4, 10.0
LINE = re.compile(r"^(\S+) .* (\d+)$")


class TimedApache(Apache):
    """An Apache that logs the microsecond at which each request arrived."""

    def configuration(self) -> dict[str, str]:
        """Return the configuration with the time at the end of each log line (mod_log_config)."""
        return {
            name: text.replace('%>s %b" common', '%>s %b %{begin:usec}t" common')
            for name, text in super().configuration().items()
        }


@dataclass(frozen=True, slots=True)
class Starts:
    """The starts of one level.

    `spread_ms` is the time from the earliest node's first request to each node's first request, by the server's log.
    """

    spread_ms: tuple[float, ...]
    own_late_ms: tuple[float, ...]
    clocks: tuple[ClockOffset, ...]


@contextmanager
def serving(address: str, directory: Path) -> Iterator[TimedApache]:
    """Yield an Apache that listens on an address of the testbed's network."""
    server = TimedApache(ApacheSettings(access_log=True), directory, document_root())
    server.listen_on(address)
    with started(server):
        yield server


def measured(levels: int) -> Iterator[Starts]:
    """Run levels one after another, and yield the starts of each. Raises DynoError."""
    subnet = Subnet(name="lan", hosts=len(OFFSETS_S), clock_offset_s=list(OFFSETS_S))
    with standing(Testbed(subnets=[subnet])) as made:
        directory = Path(tempfile.gettempdir()) / f"serverdyno-starts-{secrets.token_hex(4)}"
        with serving(made.address, directory) as server:
            access = server.access()
            target = http_target(access.url, consent_token=access.consent_token)
            told = {"consent_token": access.consent_token, "password": None}
            with fleet_at(made.fleet.path, GeneratorPlan(), target, told) as fleet:
                for number in range(levels):
                    before = len((server.directory / ACCESS_LOG).read_text().splitlines())
                    shape = {"clients": len(OFFSETS_S), "length_s": LENGTH_S, "think_time_s": THINK_S}
                    shape["max_rate_per_s"] = MAX_RATE_PER_S
                    load = fleet.start(
                        document(target, {"name": "webbench-static"}, {}, seed=number, **shape)
                    )
                    while not load.wait(1.0):
                        pass
                    load.result()
                    server.requests_served()  # waits until the log is written
                    lines = (server.directory / ACCESS_LOG).read_text().splitlines()[before:]
                    late = [each.result.start_late_s or 0.0 for each in fleet.figures]
                    yield Starts(
                        spread(lines),
                        tuple(1e3 * each for each in late),
                        tuple(each.clock for each in fleet.figures),
                    )


def spread(lines: list[str]) -> tuple[float, ...]:
    """Return the time from the earliest first request to that of each host, in ms."""
    first: dict[str, int] = defaultdict(lambda: sys.maxsize)
    for line in lines:
        found = LINE.match(line)
        assert found is not None, line
        first[found[1]] = min(first[found[1]], int(found[2]))
    earliest = min(first.values())
    return tuple((at_us - earliest) / 1e3 for at_us in first.values())
