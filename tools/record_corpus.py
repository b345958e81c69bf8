"""Record the corpus of raw experiments, tests/data/corpus: a small experiment of each form, with users' commands.

`python tools/record_corpus.py FOLDER [FORM ...]` needs root, the servers of `make servers-for-tests`, and qemu and
nbdkit for the power cut; it takes five minutes. The windows are too short for meaningful figures.
`tests/report/test_corpus.py` checks the reports of the records.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DYNO = Path(sys.executable).parent / "dyno"
TIME_LIMIT_S = 1200

WEB = """
name = "tiny-web"
title = "Tiny web suite"
source = "a test"
description = "Our own tiny suite, for the corpus."
workload = "webbench-static"
clients = {clients}
threads = 1
length_s = {length_s}
ramp_up_s = 0.2
ramp_down_s = 0.2
timeout_s = 10
leave_after_errors = 100
{more}
[http]
version = "1.1"
keep_alive = true
"""
FILES = """
name = "tiny-files"
title = "Tiny file suite"
source = "a test"
description = "Our own tiny suite, for the corpus."
workload = "{workload}"
clients = {clients}
threads = 1
length_s = {length_s}
ramp_up_s = 0.2
ramp_down_s = 0.2
timeout_s = 30
leave_after_errors = 100
{more}
"""
TWO = """
[[servers]]
server = "nginx"
[[servers]]
server = "lighttpd"
"""
SAMBA = """
[[servers]]
server = "samba"
[servers.settings]
file_system = "ext4"
image_mib = 512
"""
FAILOVER = """
[files]
cache = "none"
[files.failover]
blocks = 64
block_bytes = 4096
writes_per_flush = 4
cut = "server"
cut_percent = 30
away_s = 1
[smb]
durable_handles = true
"""
CAPACITY = """
[open]
rate_per_s = [500, 4000]
objective = "p99<20ms"
most_trials = 6
precision_percent = 50.0
"""
SMALL = """
[files]
cache = "leases"
workspace_bytes = 15728640
"""


def web(clients: list[int], length_s: float = 1.6, more: str = "") -> str:
    return WEB.format(clients=clients, length_s=length_s, more=more)


def files(workload: str, clients: list[int], length_s: float, more: str) -> str:
    return FILES.format(workload=workload, clients=clients, length_s=length_s, more=more)


PLANS = {
    "closed": (web([1, 4, 16]), "repetitions = 3" + TWO),
    "closed-again": (web([1, 4, 16]), "repetitions = 3" + TWO),
    "open": (web([16], 1.6, "[open]\npercent_of_peak = [50, 80]"), "repetitions = 2" + TWO),
    "capacity": (
        web([16], 1.6, CAPACITY),
        "repetitions = 1" + TWO,
    ),
    "factorial": (
        web([2, 8]),
        'repetitions = 2\n[[servers]]\nserver = "nginx"\n'
        "[servers.factors]\naccess_log = [true, false]\nsendfile = [true, false]\n",
    ),
    "testbed": (
        web([2, 8]),
        "repetitions = 1" + TWO + '\n[[testbed.subnets]]\nname = "lan"\nhosts = 2\nlink_mbit_s = 1000\n',
    ),
    "outage": (
        files("failover", [4], 5, FAILOVER),
        'repetitions = 1\n[[servers]]\nserver = "reference-smb"\n[servers.settings]\n'
        "continuously_available = true\n" + SAMBA,
    ),
    "disk-mix": (files("diskmix", [1, 2], 4, SMALL), "repetitions = 2" + SAMBA),
    "steps": (
        "",
        'suites = ["etesting-2002-bonnie", "etesting-2002"]\npublished = "2002-etesting-sfu"\nrepetitions = 2\n'
        'scale = 0.001\n[[servers]]\nserver = "ganesha"\nname = "sync"\n'
        '[[servers]]\nserver = "ganesha"\nname = "async"\n[servers.settings]\nskip_syncs = true\n',
    ),
}


def main() -> None:
    """Record each experiment below the folder."""
    into = Path(sys.argv[1])
    names = sys.argv[2:] or [*PLANS, "selftest", "power-cuts"]
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        for form, (suite, plan) in PLANS.items():
            if form in names:
                dyno("run", planned(Path(name) / form, suite, plan), "--into", into / form)
    if "selftest" in names:
        dyno("selftest", "--repetitions", "3", "--scale", "0.3", "--into", into / "selftest")
    if "power-cuts" in names:
        shutil.copytree(into / "disk-mix", into / "power-cuts")
        dyno("powercut", into / "power-cuts", "--cuts", "1")
    for made in into.iterdir():
        shutil.rmtree(made / "report", ignore_errors=True)
        (made / ".lock").unlink(missing_ok=True)


def planned(folder: Path, suite: str, plan: str) -> Path:
    """Write a plan and its suite, and return the plan's path."""
    (folder / "suites").mkdir(parents=True)
    head = f'name = "{folder.name}"\ntitle = "{folder.name}"\n'
    if suite:
        (folder / "suites" / "tiny.toml").write_text(suite)
        head += 'suite = "./suites/tiny.toml"\n'
    path = folder / "plan.toml"
    path.write_text(head + plan)
    return path


def dyno(*arguments: object) -> None:
    """Run a command to its end. A selftest may exit with 1, if the machine is unfit."""
    words = [str(DYNO), *(str(argument) for argument in arguments)]
    print(*words[1:], flush=True)
    done = subprocess.run(words, timeout=TIME_LIMIT_S, check=False)
    if done.returncode not in ((0, 1) if arguments[0] == "selftest" else (0,)):
        sys.exit(done.returncode)


if __name__ == "__main__":
    main()
