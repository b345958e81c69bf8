"""Ganesha's own request counters, read over a private D-Bus.

Ganesha reports statistics only over the system's D-Bus, so it gets a private bus in its own /run.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

from serverdyno.servers.local import find_program

PROGRAMS: Final = ("dbus-daemon", "dbus-send")
PACKAGES: Final = "dbus-daemon dbus-bin"
ADDRESS: Final = "DBUS_SYSTEM_BUS_ADDRESS"
CONFIGURATION: Final = "bus.conf"
TIMEOUT_S: Final = 10.0
_SOCKET: Final = Path("/run/ganesha-bus")
_STATISTICS: Final = "org.ganesha.nfsd.exportstats"
_METHODS: Final = {3: "GetFULLV3Stats", 4: "GetFULLV4Stats"}
_COUNT: Final = re.compile(r"struct \{\s+([A-Z_]+)\s+uint64 (\d+)")
_ANSWERED: Final = re.compile(r"^\s*boolean true\b")

OUTSIDE_SESSIONS: Final = ("EXCHANGE_ID", "CREATE_SESSION", "DESTROY_SESSION", "DESTROY_CLIENTID")
"""NFSv4.1 operations that are sent in a COMPOUND without SEQUENCE."""


def bus_configuration() -> str:
    """Return the configuration of the bus. Only root may use the bus."""
    return f"""<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-BUS Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type>
  <listen>unix:path={_SOCKET}</listen>
  <auth>EXTERNAL</auth>
  <policy user="root">
    <allow own="*"/>
    <allow send_destination="*"/>
    <allow receive_sender="*"/>
  </policy>
</busconfig>
"""


def missing_programs() -> list[str]:
    return [name for name in PROGRAMS if find_program(name) is None]


def script_lines(directory: Path) -> list[str]:
    return [
        f'"{find_program("dbus-daemon")}" --config-file="{directory / CONFIGURATION}" --fork --nopidfile',
        f"export {ADDRESS}=unix:path={_SOCKET}",
    ]


def operations(pid: int, version: int) -> dict[str, int] | None:
    """Return counts of NFSv3 procedures or NFSv4 operations since Ganesha's start, by name; None if it doesn't answer.

    `pid` is a process in whose /run the bus is.
    """
    bus = f"unix:path=/proc/{pid}/root{_SOCKET}"
    command = [str(find_program("dbus-send")), "--system", "--print-reply=literal", "--dest=org.ganesha.nfsd"]
    method = f"{_STATISTICS}.{_METHODS[version]}"
    try:
        done = subprocess.run(
            [*command, "/org/ganesha/nfsd/ExportMgr", method],
            env={ADDRESS: bus},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode != 0 or _ANSWERED.match(done.stdout) is None:
        return None
    return {name: int(count) for name, count in _COUNT.findall(done.stdout)}


def requests(counted: dict[str, int]) -> int:
    """Return the number of requests: NFSv3 procedures, or NFSv4 COMPOUNDs, most of which have one SEQUENCE."""
    if "SEQUENCE" not in counted:
        return sum(counted.values())
    return sum(counted.get(name, 0) for name in ("SEQUENCE", *OUTSIDE_SESSIONS))
