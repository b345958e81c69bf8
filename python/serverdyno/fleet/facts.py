"""The facts that a node reports: version, build, machine, clock and free memory.

`membership.py` judges whether the node may take part.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

import serverdyno
from serverdyno import _native
from serverdyno.probes.host import machine_facts, read, tls_keys_logged

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
NAMESPACES = Path("/proc/self/ns")


@functools.cache
def build() -> dict[str, str]:
    """Return the version, and digests of both planes. Nodes with equal builds generate the same load.

    The result is cached, so that it describes this process even if another version is installed meanwhile.
    """
    sources = hashlib.sha256()
    package = Path(serverdyno.__file__).parent
    for path in sorted(package.rglob("*.py")):
        sources.update(str(path.relative_to(package)).encode() + b"\0" + path.read_bytes())
    return {
        "version": serverdyno.__version__,
        "data_plane_sha256": hashlib.sha256(Path(_native.__file__).read_bytes()).hexdigest(),
        "control_plane_sha256": sources.hexdigest(),
    }


def place() -> dict[str, str]:
    """Return the boot ID of the machine and the namespaces of this process."""
    return {
        "boot": read(BOOT_ID) or "unknown",
        **{
            name: _namespace(file)
            for name, file in (("network", "net"), ("time", "time"), ("processes", "pid"))
        },
    }


def pid_seen_from_here(told: Mapping[str, Any]) -> int | None:
    """Return the process ID of a node in this PID namespace; None if it is on another machine, or not visible."""
    here, there = place(), told["place"]
    if here["boot"] != there["boot"]:
        return None
    if here["processes"] == there["processes"]:
        return int(told["pid"])
    for process in psutil.process_iter():
        with contextlib.suppress(OSError):
            own = Path(f"/proc/{process.pid}")
            if str((own / "ns/pid").stat().st_ino) != there["processes"]:
                continue
            # proc(5): the IDs of a process from the outermost visible namespace to its own.
            numbers = re.search(r"^NSpid:\s+(.*)$", (own / "status").read_text(), re.MULTILINE)
            if numbers is not None and int(numbers[1].split()[-1]) == told["pid"]:
                return int(process.pid)
    return None


def _namespace(file: str) -> str:
    try:
        return str((NAMESPACES / file).stat().st_ino)
    except OSError:
        return "unknown"


def node_facts() -> dict[str, Any]:
    """Return all facts of this node."""
    links = psutil.net_if_stats()
    return {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "build": build(),
        "place": place(),
        "cpus": sorted(os.sched_getaffinity(0)),
        "memory_available_bytes": psutil.virtual_memory().available,
        "links": {
            name: {"mbit_s": link.speed or None, "mtu_bytes": link.mtu}
            for name, link in sorted(links.items())
            if link.isup and name != "lo"
        },
        "machine": machine_facts(),
        "tls_keys_logged": tls_keys_logged(),
    }
