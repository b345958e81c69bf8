"""What is disclosed of the machine is read from it, and other people's use of it shows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from serverdyno.probes.host import host_facts, read, whole
from serverdyno.probes.noise import machine_cpu, used_by_others

NOTHING = {"user_s": 0.0, "nice_s": 0.0, "system_s": 0.0, "idle_s": 0.0, "irq_s": 0.0, "softirq_s": 0.0}
BEFORE = NOTHING | {"steal_s": 0.0, "at_s": 100.0, "cpus": 4.0}


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


@pytest.mark.parametrize(
    ("used", "own_cpu_s", "others_s", "interrupts_s", "steal_s"),
    [
        ({"user_s": 6.0, "system_s": 3.0, "softirq_s": 1.0}, 9.5, 0.5, 1.0, 0.0),
        ({"user_s": 1.0, "steal_s": 4.0}, 1.0, 0.0, 0.0, 4.0),
        ({"nice_s": 2.0, "idle_s": 38.0}, 0.0, 2.0, 0.0, 0.0),
    ],
)
def test_what_is_not_ours_is_somebody_elses(
    used: dict[str, float], own_cpu_s: float, others_s: float, interrupts_s: float, steal_s: float
) -> None:
    after = BEFORE | used | {"at_s": 110.0}
    noise = used_by_others(BEFORE, after, own_cpu_s)
    assert noise["interval_s"] == 10.0
    assert noise["others_s"] == pytest.approx(others_s)
    assert noise["others_share"] == pytest.approx(others_s / 40)
    assert noise["interrupts_s"] == pytest.approx(interrupts_s)
    assert noise["steal_s"] == pytest.approx(steal_s)
    assert noise["steal_share"] == pytest.approx(steal_s / 40)


def test_another_busy_process_shows_as_noise() -> None:
    before = machine_cpu()
    own = time.process_time()
    burn = "import time\nwhile time.process_time() < 0.5: pass"
    subprocess.run([sys.executable, "-I", "-S", "-c", burn], check=True)
    noise = used_by_others(before, machine_cpu(), time.process_time() - own)
    assert noise["others_s"] > 0.4
    assert noise["interval_s"] > 0.4
