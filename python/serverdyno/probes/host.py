"""The facts of this machine for the disclosure, with which a reader can judge or repeat a measurement.

Facts are read, never guessed; a fact that can't be read is None. `noise.py` observes the machine during a level.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import resource
import subprocess
from collections.abc import Iterable
from pathlib import Path

import psutil

import serverdyno
from serverdyno import _native

CPUS = Path("/sys/devices/system/cpu")
NODES = Path("/sys/devices/system/node")
SYSCTLS = (
    "net.core.somaxconn",
    "net.core.netdev_max_backlog",
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.core.wmem_default",
    "net.core.wmem_max",
    "net.core.busy_poll",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_abort_on_overflow",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_max_tw_buckets",
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.tcp_wmem",
    "net.netfilter.nf_conntrack_max",
    "fs.file-max",
    "vm.swappiness",
    "kernel.sched_autogroup_enabled",
)
KERNEL_PARAMETERS = {
    "clocksource",
    "cpuidle.off",
    "hugepages",
    "idle",
    "intel_idle.max_cstate",
    "intel_iommu",
    "intel_pstate",
    "iommu",
    "amd_pstate",
    "isolcpus",
    "mitigations",
    "nohz",
    "nohz_full",
    "nosmt",
    "preempt",
    "processor.max_cstate",
    "rcu_nocbs",
    "transparent_hugepage",
    "tsc",
}


KEY_LOG = "SSLKEYLOGFILE"
"""The environment variable with the path of the file for TLS session keys, which the data plane reads."""

MOMENTARY = {"cpu.frequency_mhz", "memory.available_bytes", "load_average", "limits.open_files_soft"}
"""Facts that change from moment to moment. The soft limit is raised to the hard limit when load starts."""


def machine_facts() -> dict[str, object]:
    """Return only the machine's facts, in groups."""
    return {
        "cpu": _cpu(),
        "virtualisation": _virtualisation(),
        "memory": _memory(),
        "system": _system(),
        "mitigations": {path.name: read(path) for path in sorted((CPUS / "vulnerabilities").glob("*"))},
        "sysctls": {name: read(Path("/proc/sys", *name.split("."))) for name in SYSCTLS},
        "limits": dict(
            zip(
                ("open_files_soft", "open_files_hard"),
                resource.getrlimit(resource.RLIMIT_NOFILE),
                strict=True,
            )
        ),
        "load_average": list(os.getloadavg()),
        "loopback_mtu_bytes": whole(read(Path("/sys/class/net/lo/mtu"))),
    }


def host_facts(documents: Path | None = None) -> dict[str, object]:
    """Return all facts, in groups. `documents` is the document root, whose file system is described."""
    return {
        **machine_facts(),
        "documents": None if documents is None else _file_system(documents),
        "software": {
            "serverdyno": serverdyno.__version__,
            **{f"data_plane_{key}": value for key, value in _native.build_info().items()},
            "data_plane_sha256": _digest(Path(_native.__file__)),
            "commit": _commit(Path(__file__).parent),
            "documents_digest": _native.tree_facts()["digest"],
            "tls_keys_logged": tls_keys_logged(),
            "python": f"{platform.python_implementation()} {platform.python_version()}",
        },
    }


def tls_keys_logged() -> bool:
    """Return whether this process writes the keys of its TLS sessions to a file."""
    return KEY_LOG in os.environ


@functools.cache  # of the module, as loaded
def _digest(path: Path) -> str | None:
    """Return the SHA-256 of a file, or None if it can't be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


@functools.cache
def _commit(folder: Path) -> str | None:
    """Return the commit of the source checkout that contains `folder`; None for an installed package."""
    try:
        told = subprocess.run(
            ["git", "-C", f"{folder}", "rev-parse", "HEAD"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return told.stdout.strip() or None


def read(path: Path) -> str | None:
    """Return the text of a file of /proc or /sys on one line; None if it is missing or not readable."""
    try:
        return " ".join(path.read_text(errors="replace").split()) or None
    except OSError:
        return None


def whole(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def _same(values: Iterable[str | None]) -> str | None:
    """Return the distinct values, joined by commas, because the CPUs of a machine may differ; None without values."""
    return ", ".join(sorted({value for value in values if value is not None})) or None


def _cpu_info(key: str) -> str | None:
    """Return the values of `key` in /proc/cpuinfo. Keys differ between architectures."""
    lines = (line.partition(":") for line in _lines(Path("/proc/cpuinfo")))
    return _same(value.strip() for name, _, value in lines if name.strip() == key)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()
    except OSError:
        return []


def _cpu() -> dict[str, object]:
    directories = sorted(CPUS.glob("cpu[0-9]*"))
    topology = [directory / "topology" for directory in directories]
    sockets = {socket for path in topology if (socket := read(path / "physical_package_id")) is not None}
    return {
        "model": _cpu_info("model name"),
        "architecture": platform.machine(),
        "microcode": _cpu_info("microcode"),
        "logical": psutil.cpu_count(),
        "cores": psutil.cpu_count(logical=False),
        "sockets": len(sockets) or None,
        "thread_siblings": sorted(
            {text for path in topology if (text := read(path / "thread_siblings_list"))}
        ),
        "numa_nodes": read(NODES / "online"),
        "numa_node_cpus": {
            path.name.removeprefix("node"): read(path / "cpulist")
            for path in sorted(NODES.glob("node[0-9]*"))
        },
        "usable_by_us": sorted(os.sched_getaffinity(0)),
        "isolated": read(CPUS / "isolated"),
        "quota": _cpu_quota(),
        "caches": _caches(),
        "frequency_mhz": _cpu_info("cpu MHz"),
        "frequency_max_khz": _same(read(path / "cpufreq/cpuinfo_max_freq") for path in directories),
        "governor": _same(read(path / "cpufreq/scaling_governor") for path in directories),
        "boost": read(CPUS / "cpufreq/boost"),
        "intel_no_turbo": read(CPUS / "intel_pstate/no_turbo"),
    }


def _cpu_quota() -> str | None:
    """Return the CPU limit of this process's control group, as in a container; None if not known.

    The text has the format of `cpu.max` in cgroup v2: quota and period in us.
    """
    group = next((line[3:] for line in _lines(Path("/proc/self/cgroup")) if line.startswith("0::")), None)
    return None if group is None else read(Path("/sys/fs/cgroup", group.lstrip("/"), "cpu.max"))


def _caches() -> dict[str, str | None]:
    """Return the caches of the first CPU: `L1 Data` -> `32K`."""
    found = sorted((CPUS / "cpu0/cache").glob("index*"))
    return {f"L{read(path / 'level')} {read(path / 'type')}": read(path / "size") for path in found}


def _virtualisation() -> dict[str, object]:
    """Return signs of virtualisation. Their absence does not prove that the machine is physical."""
    dmi = Path("/sys/class/dmi/id")
    flags = _cpu_info("flags")
    return {
        "hypervisor_flag": None if flags is None else "hypervisor" in flags.split(),
        "hypervisor_type": read(Path("/sys/hypervisor/type")),
        "vendor": read(dmi / "sys_vendor"),
        "product": read(dmi / "product_name"),
        "container": Path("/.dockerenv").exists() or Path("/run/.containerenv").exists() or None,
    }


def _memory() -> dict[str, object]:
    return {
        "total_bytes": psutil.virtual_memory().total,
        "available_bytes": psutil.virtual_memory().available,
        "swap_total_bytes": psutil.swap_memory().total,
        "transparent_hugepages": read(Path("/sys/kernel/mm/transparent_hugepage/enabled")),
    }


def _system() -> dict[str, object]:
    clock = Path("/sys/devices/system/clocksource/clocksource0")
    try:
        distribution = platform.freedesktop_os_release().get("PRETTY_NAME")
    except OSError:
        distribution = None
    return {
        "kernel": platform.release(),
        "kernel_build": platform.version(),
        "kernel_parameters": _kernel_parameters(),
        "distribution": distribution,
        "c_library": " ".join(platform.libc_ver()).strip() or None,
        "clocksource": read(clock / "current_clocksource"),
        "clocksources": read(clock / "available_clocksource"),
    }


def _kernel_parameters() -> list[str]:
    """Return the kernel parameters that affect speed; the others may be private."""
    words = (read(Path("/proc/cmdline")) or "").split()
    return [word for word in words if word.partition("=")[0] in KERNEL_PARAMETERS]


def _file_system(directory: Path) -> dict[str, object] | None:
    """Return the mount that contains `directory`.

    If several mounts have the longest mount point, the last one hides the others.
    """
    real = directory.resolve()
    mounts = [mount for mount in psutil.disk_partitions(all=True) if real.is_relative_to(mount.mountpoint)]
    if not mounts:
        return None
    mount = max(reversed(mounts), key=lambda mount: len(mount.mountpoint))
    return {
        "device": mount.device,
        "mount_point": mount.mountpoint,
        "type": mount.fstype,
        "options": mount.opts,
    }
