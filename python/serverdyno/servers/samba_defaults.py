"""The differences between a Samba configuration and Samba's defaults, both as testparm(1) prints them.

The differences show how the driver's Samba differs from an ordinary one. Paths are left out.
"""

from __future__ import annotations

import functools
import re
import subprocess
from pathlib import Path

from serverdyno.servers.local import find_program

PARAMETER = re.compile(r"^\s+(\S.*?) = ?(.*)$", re.MULTILINE)
PROGRAM_TIMEOUT_S = 30.0
LOG_LEVEL = 0
MOVE_FIGURES = (
    "strict sync",
    "sync always",
    "case sensitive",
    "oplocks",
    "level2 oplocks",
    "kernel oplocks",
    "smb2 leases",
    "server multi channel support",
    "smbd profiling level",
    "log level",
    "server min protocol",
    "server max protocol",
    "server signing",
    "server smb encrypt",
    "socket options",
    "aio read size",
    "aio write size",
    "allocation roundup size",
)
"""Settings that affect the cost or the outcome of a request. They are listed first, in this order."""


def departures(configuration: Path, log_level: int) -> str:
    """Return a sentence with each parameter that differs from Samba's default, and with the default.

    `log_level` is that of `configuration`. It is given separately, because testparm applies it to itself and does not
    report it.
    """
    program = find_program("testparm")
    if program is None:
        return "Differences from Samba's defaults are not known, because testparm is not installed."
    own = str(configuration.parent)
    defaults = _defaults(program)
    found = {
        name: f"{name} = {value or 'empty'} ({defaults.get(name) or 'empty'})"
        for name, value in _read(program, str(configuration)).items()
        if own not in value and name != "path" and value != defaults.get(name)
    }
    if not found:
        return (
            "Differences from Samba's defaults are not known, because testparm could not read the "
            "configuration."
        )
    if log_level != LOG_LEVEL:
        found["log level"] = f"log level = {log_level} ({LOG_LEVEL})"
    first = [found.pop(name) for name in MOVE_FIGURES if name in found]
    said = ", ".join([*first, *found.values()])
    return f"Differs from Samba's defaults, which are given in brackets: {said}."


@functools.cache
def _defaults(program: Path) -> dict[str, str]:
    return _read(program, "-v", "/dev/null")


def _read(program: Path, *arguments: str) -> dict[str, str]:
    """Return testparm's parameters by name: those that differ from the defaults, or with `-v` all."""
    done = subprocess.run(
        [str(program), "-s", *arguments],
        capture_output=True,
        text=True,
        timeout=PROGRAM_TIMEOUT_S,
        check=False,
    )
    return dict(PARAMETER.findall(done.stdout))
