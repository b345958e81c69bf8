"""Facts about the machine are read from it, and its use by others is visible."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from serverdyno.fleet.node_window import NodeWindow
from serverdyno.plan.model import Level
from serverdyno.probes import listening, noise
from serverdyno.probes.host import host_facts, read, whole
from serverdyno.probes.listening import listening_sockets, owners
from serverdyno.probes.noise import CpuTime, OthersUse, machine_cpu, process_cpu_s, used_by_others
from serverdyno.probes.processes import descendants
from serverdyno.probes.window import UNKNOWN, WindowMeter
from support.dyno_process import wait_until


def test_the_facts_are_plain_data_and_agree_with_other_sources(tmp_path: Path) -> None:
    facts = json.loads(json.dumps(host_facts(tmp_path)))
    assert facts["cpu"]["logical"] == os.cpu_count()
    assert facts["cpu"]["usable_by_us"] == sorted(os.sched_getaffinity(0))
    assert facts["system"]["kernel"] == os.uname().release
    assert facts["memory"]["total_bytes"] == psutil.virtual_memory().total
    backlog = subprocess.run(
        ["cat", "/proc/sys/net/core/somaxconn"], capture_output=True, text=True, check=True
    )
    assert facts["sysctls"]["net.core.somaxconn"] == backlog.stdout.strip()
    assert facts["limits"]["open_files_soft"] <= facts["limits"]["open_files_hard"]
    assert facts["software"]["python"].endswith(".".join(map(str, sys.version_info[:3])))
    found = subprocess.run(
        ["stat", "--file-system", "--format=%T", str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip().startswith(facts["documents"]["type"][:3])


def test_what_cannot_be_read_is_none_and_never_a_guess(tmp_path: Path) -> None:
    assert read(tmp_path / "missing") is None
    assert read(tmp_path) is None
    assert whole(None) is None
    assert whole("many") is None
    assert host_facts()["documents"] is None


def test_what_is_not_ours_is_somebody_elses_and_never_less_than_nothing() -> None:
    before = CpuTime(at_s=100.0, cpus=4, busy_s=50.0, steal_s=1.0)
    after = CpuTime(at_s=110.0, cpus=4, busy_s=60.0, steal_s=3.0)
    assert used_by_others(before, after, 9.5) == OthersUse(interval_s=10.0, others_s=0.5, steal_s=2.0)
    # The machine's figure may not yet include all CPU time of a process that has ended meanwhile.
    assert used_by_others(before, after, 10.02).others_s == 0.0


def test_a_machine_that_looks_only_after_the_middle_of_a_window_says_nothing_of_it() -> None:
    level = Level(1, "1", 1, 1, length_s=4.0, ramp_up_s=1.0, ramp_down_s=1.0, delay_s=0.0, think_time_s=0.0)
    window = {"length_s": 4.0, "ramp_up_s": 1.0, "ramp_down_s": 1.0}
    for first_s, is_known in ((1.0, True), (1.9, True), (2.1, False), (3.5, False)):
        meter, node = WindowMeter(lambda: 1.0, lambda _: {"fsync": 1}), NodeWindow(window, ())
        for elapsed_s in (first_s, 3.6, 4.0):
            meter.look(elapsed_s, level)
            node.look(elapsed_s)
        assert (meter.use(2.0) != UNKNOWN, meter.syncs() is not None) == (is_known, is_known)
        assert (node.told()["cpus"] is not None) == is_known
        assert node.until_due_s(4.0) == math.inf


def test_what_was_stolen_while_processes_ran_is_not_busy_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = "100 0 50 900 0 0 0 {} 0 0"
    steal = [20, 70]
    (tmp_path / "stat").write_text(
        "".join(
            f"cpu{name} {ticks.format(value)}\n" for name, value in zip(("", 0, 1), (90, *steal), strict=True)
        )
    )
    run = "0 0 0 0 0 0 {} 5 6"
    (tmp_path / "schedstat").write_text(
        "version 15\n"
        + "".join(f"cpu{cpu} {run.format(ns)}\n" for cpu, ns in enumerate((3 * 10**9, 5 * 10**9)))
    )
    monkeypatch.setattr(psutil, "PROCFS_PATH", f"{tmp_path}")
    monkeypatch.setattr(noise, "CPUACCT", tmp_path)
    monkeypatch.setattr(noise, "SCHEDSTAT", tmp_path / "schedstat")
    hertz = os.sysconf("SC_CLK_TCK")
    both, second = machine_cpu(), machine_cpu([1])
    assert (both.cpus, both.steal_s, both.busy_s) == pytest.approx((2, 90 / hertz, 8 - 90 / hertz))
    assert (second.cpus, second.steal_s, second.busy_s) == pytest.approx((1, 70 / hertz, 5 - 70 / hertz))


SPIN = "import time\nwhile time.process_time() < {seconds}: pass"


def spinning(seconds: float, cpu: int) -> subprocess.Popen[bytes]:
    """Start a process that keeps one CPU busy until it has used this much CPU time."""
    code = f"import os\nos.sched_setaffinity(0, [{cpu}])\n{SPIN.format(seconds=seconds)}"
    return subprocess.Popen([sys.executable, "-I", "-S", "-c", code])


def test_another_busy_process_shows_as_noise_on_the_cpus_that_it_uses() -> None:
    first = min(os.sched_getaffinity(0))
    before, own_s = machine_cpu([first]), time.process_time()
    with spinning(0.5, first) as other:
        used_s = 0.0
        while other.poll() is None:
            with contextlib.suppress(psutil.NoSuchProcess):
                used_s = process_cpu_s(other.pid)
            time.sleep(0.01)
    used = used_by_others(before, machine_cpu([first]), time.process_time() - own_s)
    # `others_s` lacks what this process used on any CPU, although it counts only that one CPU.
    assert used_s > 0.05
    assert used.others_s + (time.process_time() - own_s) >= 0.9 * used_s
    assert used.interval_s > 0.4


def test_the_cpu_time_of_a_process_is_in_nanoseconds_and_agrees_with_its_own() -> None:
    code = f"import time\n{SPIN.format(seconds=0.2)}\nprint(time.process_time(), flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None and other.stdin is not None
        own_s = float(other.stdout.readline())
        seen_s = process_cpu_s(other.pid)
        other.stdin.write("\n")
    assert own_s <= seen_s < own_s + 0.1
    with pytest.raises(psutil.NoSuchProcess):
        process_cpu_s(other.pid)


def test_the_kernel_lists_the_same_listeners_by_netlink_as_in_its_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = first.getsockname()[1]
        address = ("::", port)
        stack.enter_context(socket.create_server(address, family=socket.AF_INET6, dualstack_ipv6=False))
        stack.enter_context(socket.create_connection(first.getsockname()))
        found = listening_sockets(port)
        assert {address for address, _ in found} == {"127.0.0.1", "::"}
        assert owners({inode for _, inode in found}) == {inode: [os.getpid()] for _, inode in found}
        monkeypatch.setattr(listening, "NETLINK_SOCK_DIAG", 31)  # as in a kernel without it
        assert sorted(listening_sockets(port)) == sorted(found)


def test_descendants_are_found_over_generations_and_without_strangers() -> None:
    shell = ["sh", "-c", "sleep 60 & sh -c 'sleep 60; true' & wait"]
    with subprocess.Popen(shell) as parent, subprocess.Popen(["sleep", "60"]) as stranger:
        try:
            wait_until(
                lambda: _programs(descendants([parent.pid])) == ["sh", "sleep", "sleep"], "all three run"
            )
        finally:
            for pid in (*descendants([parent.pid]), parent.pid, stranger.pid):
                os.kill(pid, signal.SIGKILL)
    assert descendants([parent.pid]) == []


def _programs(pids: Sequence[int]) -> list[str]:
    return sorted(psutil.Process(pid).name() for pid in pids)
