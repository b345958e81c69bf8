"""Bonnie: the rows byte for byte, the phases on a directory, and the removal of its file."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from benches import bonnie as bench
from benches.levels import nfs_target as bench_nfs_target
from benches.levels import smb_target as bench_smb_target
from benches.rounds import Effort, cpus

from serverdyno import _native
from serverdyno.analysis import bonnie_rows
from serverdyno.analysis.bonnie_rows import Rate
from support.disk_mix import target as smb_target
from support.dyno_process import Home, wait_for_line
from support.file_server import PATIENCE_S, needs_root, samba
from support.jobs import carried_out_alone
from support.nfs_server import ganesha, libnfs
from support.nfs_server import target as nfs_target
from support.reference_servers import start_nfs, start_smb
from support.users_smbd import PASSWORD, USER, left_on, started

MIB = 1 << 20
PHASES = ["putc", "rewrite", "write", "getc", "read", "seeks"]
# Figures 5 to 7 of the report on Services for UNIX 3.0 (eTesting Labs, 2002).
SFU = {
    "putc": Rate(10394, 97.3),
    "write": Rate(10485, 7.9),
    "rewrite": Rate(5744, 4.2),
    "getc": Rate(9511, 97.3),
    "read": Rate(10806, 4.2),
    "seeks": Rate(591.04, 7.24),
}


def test_the_text_is_that_of_the_original() -> None:
    assert bonnie_rows.HEAD + bonnie_rows.text_row("sfu3-long-name", 2047, SFU) == (
        "              -------Sequential Output-------- ---Sequential Input-- --Random--\n"
        "              -Per Char- --Block--- -Rewrite-- -Per Char- --Block--- --Seeks---\n"
        "Machine    MB K/sec %CPU K/sec %CPU K/sec %CPU K/sec %CPU K/sec %CPU  /sec %CPU\n"
        "sfu3-lon 2047 10394 97.3 10485  7.9  5744  4.2  9511 97.3 10806  4.2 591.0  7.2\n"
    )


def test_the_row_of_html_is_that_of_the_original_and_a_label_is_no_markup() -> None:
    assert bonnie_rows.html_row("<a>", 100, SFU) == (
        "<TR><TD>&lt;a&gt;</TD><TD>100</TD><TD>10394</TD><TD>97.3</TD><TD>10485</TD><TD> 7.9</TD><TD>5744</TD>"
        "<TD> 4.2</TD><TD>9511</TD><TD>97.3</TD><TD>10806</TD><TD> 4.2</TD><TD>591.0</TD><TD> 7.2</TD></TR>\n"
    )


def test_k_per_second_and_cpu_follow_from_size_and_times() -> None:
    assert bonnie_rows.sequential(100 * MIB, elapsed_s=2.0, cpu_s=0.5) == Rate(51200.0, 25.0)
    assert bonnie_rows.random(4000, elapsed_s=2.0, cpu_s=3.0) == Rate(2000.0, 150.0)


def phases_of(home: Home, *options: str | Path) -> dict[str, Any]:
    done = home.dyno("bonnie", "--json", *options)
    assert done.returncode == 0, done.stderr
    phases = json.loads(done.stdout)["phases"]
    assert [phase["phase"] for phase in phases] == PHASES
    return {phase["phase"]: phase for phase in phases}


def test_each_phase_makes_the_calls_of_the_original_and_nothing_is_left(home: Home, tmp_path: Path) -> None:
    chunk, seeks, size = 16384, 200, 2 * MIB
    found = phases_of(home, "-d", tmp_path, "-s", "2", "--seeks", f"{seeks}")
    counts = {name: found[name]["requests"] for name in PHASES}
    chunks, pages = size // chunk, size // 4096
    assert counts["putc"]["write"] == pages  # stdio's buffer is a block of the file system
    assert counts["rewrite"] == {"read": chunks + 1, "write": chunks, "close": 1}
    assert counts["write"] == {"write": chunks, "close": 1}
    assert counts["getc"]["read"] == pages + 1
    assert counts["read"]["read"] == chunks + 1
    assert counts["seeks"]["read"] == seeks
    # Each of three seekers writes at its first seek and at every tenth after it; one may have made no seek at all.
    assert seeks // 10 <= counts["seeks"]["write"] <= seeks // 10 + 3
    assert all(phase["elapsed_s"] > 0 and phase["p50_us"] <= phase["max_us"] for phase in found.values())
    for name, phase in found.items():
        rate = seeks / phase["elapsed_s"] if name == "seeks" else 2048 / phase["elapsed_s"]
        assert phase["seeks_s" if name == "seeks" else "kib_s"] == pytest.approx(rate)
        assert phase["cpu_percent"] == 100 * (phase["user_s"] + phase["system_s"]) / phase["elapsed_s"]
    assert list(tmp_path.iterdir()) == []


def test_everything_that_is_read_is_compared_unless_that_is_left_out(home: Home, tmp_path: Path) -> None:
    options = ("-d", tmp_path, "-s", "2", "--seeks", "200")
    found = phases_of(home, *options)
    for name in ("rewrite", "getc", "read"):
        assert (found[name]["bytes_checked"], found[name]["bytes_unknown"]) == (2 * MIB, 0), name
    seeks = found["seeks"]
    assert seeks["bytes_checked"] > 0
    assert seeks["bytes_checked"] + seeks["bytes_unknown"] == 200 * 16384
    assert {each["bytes_checked"] for each in phases_of(home, *options, "--no-check").values()} == {0}


def test_seekers_that_write_by_close_to_open_rules_accuse_nobody(home: Home) -> None:
    # Another seeker's writes reach the server when it closes the file at the latest, in any order.
    server = start_nfs()
    try:
        url = f"nfs://127.0.0.1:{server.port}/volume1?vers=4.1&nfsport={server.port}"
        seeks = phases_of(home, "-d", url, "-s", "20", "--seeks", "20000")["seeks"]
    finally:
        server.stop()
    checked, unknown = seeks["bytes_checked"], seeks["bytes_unknown"]
    assert checked + unknown == 20000 * 16384 and unknown < checked / 10


def test_a_bound_of_the_rate_is_in_no_response_time_and_is_told(home: Home, tmp_path: Path) -> None:
    options = ("-d", tmp_path, "-s", "1", "--seeks", "2", "--max-rate", "100")
    done = home.here("bonnie", *options, "--json", "--into", tmp_path / "e")
    assert done.returncode == 0, done.stderr
    phases = {phase["phase"]: phase for phase in json.loads(done.stdout)["phases"]}
    # 64 calls, 10 ms apart; each call takes less than that.
    assert phases["write"]["elapsed_s"] > 0.6 and phases["write"]["p50_us"] < 10_000
    report = home.here("report", tmp_path / "e")
    assert "the plan's bound of 100" in " ".join(report.stdout.split()), report.stdout


def test_a_size_may_have_the_unit_of_bonnie_plus_plus_and_a_url_the_short_form(
    home: Home, tmp_path: Path
) -> None:
    for size in ("2M", "2048k"):
        done = home.here("bonnie", "--json", "-d", f"file:{tmp_path}", "-s", size, "--seeks", "5")
        assert done.returncode == 0 and json.loads(done.stdout)["size_bytes"] == 2 * MIB, done.stderr


def test_several_at_once_have_files_of_their_own_and_one_row(home: Home, tmp_path: Path) -> None:
    options = ("-d", tmp_path, "-s", "2", "--seeks", "40")
    one, three = phases_of(home, *options), phases_of(home, *options, "--clients", "3")
    assert list(tmp_path.iterdir()) == []
    for phase in PHASES:
        assert three[phase]["bytes"] == 3 * one[phase]["bytes"], phase
        assert three[phase]["requests"]["close"] == 3 * one[phase]["requests"]["close"], phase
    assert three["seeks"]["requests"]["read"] == 3 * 40


def test_one_of_several_whose_file_is_there_ends_all_and_leaves_it(home: Home, tmp_path: Path) -> None:
    with home.started("bonnie", "-d", tmp_path, "-s", "2000", "--clients", "2") as tool:
        theirs = tmp_path / f"Bonnie.{tool.pid}.2"
        theirs.write_text("kept")
        assert tool.wait(PATIENCE_S) != 0
    assert list(tmp_path.iterdir()) == [theirs] and theirs.read_text() == "kept"


def test_a_row_has_the_columns_of_its_head(home: Home, tmp_path: Path) -> None:
    done = home.dyno("bonnie", "-d", tmp_path, "-s", "1", "-m", "here", "--seeks", "20")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(bonnie_rows.HEAD)
    row = done.stdout.removeprefix(bonnie_rows.HEAD)
    assert re.fullmatch(r"here        1( +\d+ +\d+\.\d){5} +\d+\.\d +\d+\.\d\n", row), row
    assert "p99" in done.stderr


@pytest.mark.parametrize("at", ["smb://192.0.2.1/a", "http://127.0.0.1/", "/nowhere/at/all"])
def test_what_is_no_place_for_it_is_refused_in_words(home: Home, at: str) -> None:
    done = home.dyno("bonnie", "-d", at, "-s", "1")
    assert done.returncode != 0 and "Traceback" not in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--clients", "1,2"), "--clients: must be a whole number"),
        (("--clients", "64", "--seekers", "64"), "clients: a level would have 4,096 sessions"),
        (("--seekers", "65", "-s", "0"), "-s: must be at least 1"),
        (("--server", "samba"), "--server samba can't be used together"),
    ],
)
def test_options_that_make_no_suite_are_refused_in_words(
    home: Home, tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    done = home.here("bonnie", "-d", tmp_path, *options)
    assert done.returncode == 2 and words in done.stderr, done.stderr


@pytest.mark.parametrize("place", [("-d", "."), ("-d", "nfs://127.0.0.1/a"), ("--server", "samba")])
def test_kerberos_is_for_the_url_of_an_smb_server(home: Home, place: tuple[str, str]) -> None:
    done = home.here("bonnie", *place, "-s", "1", "--authentication", "kerberos")
    assert done.returncode == 2, done.stderr
    assert "erberos" in done.stderr and "smb://" in done.stderr, done.stderr


def test_an_interrupt_removes_the_file(home: Home, tmp_path: Path) -> None:
    with home.started("bonnie", "-d", tmp_path, "-s", "2000", "--seeks", "1") as tool:
        wait_until(lambda: bool(list(tmp_path.iterdir())), tool)
        tool.send_signal(signal.SIGINT)
        assert tool.wait(PATIENCE_S) != 0
    assert list(tmp_path.iterdir()) == []


def test_phases_of_bonnie_plus_plus_are_timed_from_what_it_says() -> None:
    # Each message is written once the previous one was read, because each reading of the clock advances it by a second.
    reads, writes = os.pipe()
    said = [b"Using uid:0, gid:0.\nWriting intelligently...", b"done\nRewriting...", b"do", b"ne\n"]
    said += [b"Reading intelligently...done\n", b"start 'em...done\n"]
    clock = iter(range(100))

    def cpu_s() -> float:
        now_s = next(clock)
        if said:
            os.write(writes, said.pop(0))
        else:
            os.close(writes)
        return float(now_s)

    cpu_s()
    text, phases = bench.timed(reads, cpu_s)
    os.close(reads)
    assert text.endswith("start 'em...done\n")
    assert {name: used_s for name, (_, used_s) in phases.items()} == {"write": 1, "rewrite": 2, "read": 0}


@pytest.mark.skipif(bench.missing(), reason="bonnie++ is not installed")
def test_a_run_of_the_bench_has_each_phase_of_the_peer_and_its_cpu_time(tmp_path: Path) -> None:
    # The peer reports no figure for so small a file.
    effort = Effort(rounds=1, patience_s=0, attempts=1)
    runs = bench.one_call(bench.peer(tmp_path, 128), cpus(), effort, size_mib=128)
    assert sorted(run.case for run in runs) == ["bonnie-read", "bonnie-rewrite", "bonnie-write"]
    # A phase can't use more of its one CPU than its duration, except for the time between reading the two clocks.
    assert all(0 < run.generator_cpu_s <= run.measured_s + 0.05 for run in runs)
    assert list(tmp_path.iterdir()) == []


def test_a_run_of_the_bench_has_each_phase_of_ours(tmp_path: Path) -> None:
    # The peer reports no figure for a file of this size.
    effort = Effort(rounds=1, patience_s=0, attempts=1)
    runs = bench.one_call(bench.ours(tmp_path, 2), cpus(), effort, size_mib=2)
    assert {run.case for run in runs} == {"bonnie-rewrite", "bonnie-write", "bonnie-read"}
    assert all(run.requests == 256 and run.requests_s > 0 for run in runs)
    assert list(tmp_path.iterdir()) == []


@needs_root
def test_over_smb_the_phases_are_reads_and_writes() -> None:
    # A workstation's client cache, against a real Samba in its own network.
    size = 2 * MIB
    with samba() as server:
        volume = server.data_directories()[0]
        before = sorted(path.name for path in volume.iterdir())
        phases = carried_out(smb_target(server), size)
        assert sorted(path.name for path in volume.iterdir()) == before
    assert list(phases) == PHASES
    for name in ("putc", "write"):
        assert phases[name]["requests"]["WRITE"] >= size // MIB
    assert phases["read"]["bytes_read"] == phases["getc"]["bytes_read"] == size
    assert phases["seeks"]["bytes_read"] == 100 * 16384


@pytest.mark.parametrize("fault", ["wrong-content", "lost-writes"])
def test_a_server_with_wrong_data_gets_an_error_and_no_phases(fault: str) -> None:
    server = start_smb(user="dyno", password="secret", fault=fault)
    try:
        url = f"smb://127.0.0.1:{server.port}/"
        to = bench_smb_target(url, shares=["volume1"], user="dyno", password="secret")
        with pytest.raises(_native.AnswerError, match=r"differs from the file's content|length"):
            carried_out(to, 2 * MIB)
    finally:
        server.stop()


@pytest.mark.parametrize("option", ["-u", "-n", "-r", "-x", "-z", "-q", "-f", "-D"])
def test_an_option_of_bonnie_plus_plus_is_answered_with_ours(home: Home, option: str) -> None:
    done = home.here("bonnie", option, "1")
    assert done.returncode == 2 and f"error: {option}: " in done.stderr and "hint: " in done.stderr


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        (("-s", "1x"), "For example -s 16384 or -s 16G."),
        (("-s", "100k"), "not a whole number of MiB: 100 KiB"),
        (("-s", "16t"), "-s: must be at most 4194304"),
        (("-s", "16384:8k"), "-s SIZE --chunk BYTES"),
        (("--server", "samba", "-d", "/tmp"), "--set data_directory=DIRECTORY"),
        (("-d", "smb://somebody@127.0.0.1/data"), "Give --user NAME, and the password in DYNO_SMB_PASSWORD."),
    ],
)
def test_a_size_or_a_place_of_another_form_is_refused_with_ours(
    home: Home, options: tuple[str, ...], hint: str
) -> None:
    done = home.here("bonnie", "-s", "1", *options)
    assert done.returncode == 2 and hint in done.stderr, done.stderr


@needs_root
@pytest.mark.parametrize("comes_back", [True, False])
def test_what_a_killed_server_leaves_is_removed_or_named(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, comes_back: bool
) -> None:
    server = started(tmp_path)
    share = server.at / "data"
    try:
        monkeypatch.setenv("DYNO_SMB_PASSWORD", PASSWORD)
        options = ("-s", "200", "--seeks", "1", "--user", USER, "-d", f"{server.url}data")
        with home.started("bonnie", *options) as tool:
            wait_until(lambda: any(file.stat().st_size for file in share.iterdir()), tool)
            server.kill()
            if comes_back:
                server.start()
            said = tool.communicate(timeout=PATIENCE_S)[1]
            assert tool.returncode == 1, said
        if comes_back:
            assert left_on(server, "data") == [] and "left on" not in said, said
            return
        [left] = share.iterdir()
        assert re.search(f"could not be removed, and remain on smb://[^ ]*: {left.name}", said), said
        command = re.search("hint: To remove them: (smbclient .*)", said)
        assert command is not None, said
        server.start()
        words = shlex.split(command[1].replace(f"-U {USER}", f"-U {USER}%{shlex.quote(PASSWORD)}"))
        subprocess.run(words, check=True, timeout=PATIENCE_S)
        assert left_on(server, "data") == []
    finally:
        server.kill()


@needs_root
def test_a_server_that_ends_in_a_later_phase_is_told_with_the_phase(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = started(tmp_path)
    try:
        monkeypatch.setenv("DYNO_SMB_PASSWORD", PASSWORD)
        options = ("-s", "1000", "--seeks", "1", "--user", USER, "-d", f"{server.url}data")
        with home.started("bonnie", *options) as tool:
            wait_for_line(tool, ": rewrite")
            server.kill()
            said = tool.communicate(timeout=PATIENCE_S)[1]
    finally:
        server.kill()
    assert tool.returncode == 1, said
    assert re.search(r"\(at \w+; until then, the server answered, so it may have ended", said), said


@pytest.mark.parametrize("protocol", ["smb", "nfs3", "nfs4"])
def test_a_server_that_hangs_is_reported_after_the_timeout(protocol: str) -> None:
    # The job's own limit is a day.
    if protocol == "smb":
        smb = start_smb(user="dyno", password="secret", fault="stall")
        url = f"smb://127.0.0.1:{smb.port}/"
        to = bench_smb_target(url, shares=["volume1"], user="dyno", password="secret")
        server: Any = smb
    else:
        server = start_nfs(fault="stall")
        ports = f"nfsport={server.port}&mountport={server.port}"
        version = "3" if protocol == "nfs3" else "4.1"
        to = bench_nfs_target(f"nfs://127.0.0.1:{server.port}/volume1?vers={version}&{ports}")
    try:
        with pytest.raises(_native.AnswerError, match="the response did not end in time") as caught:
            carried_out(to, 2 * MIB, most_s=86400.0, timeout_s=0.5)
        assert "sleeping disk" in caught.value.args[3]
    finally:
        server.stop()


def has_written(counts: Path) -> bool:
    """Return whether a reference server has had a WRITE, according to its counts."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(counts))
        with connection.makefile() as text:
            return any("WRITE" in name and count for name, count in json.loads(text.read()).items())


def test_a_server_that_hangs_in_a_phase_is_not_taken_for_one_that_sleeps(home: Home) -> None:
    counts = home.temporary / "counts"
    with (
        home.started("reference", "nfs", "--port", "0", "--counts", counts) as server,
        ThreadPoolExecutor(1) as pool,
    ):
        assert server.stdout is not None
        port = json.loads(server.stdout.readline())["port"]
        to = bench_nfs_target(f"nfs://127.0.0.1:{port}/volume1?vers=3&nfsport={port}&mountport={port}")
        job = pool.submit(carried_out, to, 2000 * MIB, timeout_s=2.0)
        try:
            wait_until(lambda: has_written(counts), server)
        finally:
            server.send_signal(signal.SIGSTOP)
        with pytest.raises(_native.AnswerError, match="the response did not end in time") as caught:
            job.result(timeout=PATIENCE_S)
        advice = caught.value.args[3]
        assert "answered before" in advice and "sleeping disk" not in advice
        server.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("version", ["3", "4.1"])
def test_a_signal_ends_it_although_the_server_hangs_and_what_is_left_is_named(
    home: Home, version: str
) -> None:
    counts = home.temporary / f"counts-{version}"
    with home.started("reference", "nfs", "--port", "0", "--counts", counts) as server:
        assert server.stdout is not None
        port = json.loads(server.stdout.readline())["port"]
        url = f"nfs://127.0.0.1:{port}/volume1?vers={version}&nfsport={port}&mountport={port}"
        with home.started("bonnie", "-d", url, "-s", "2000", "--seeks", "1") as tool:
            # The line of a phase is printed before its file is created.
            wait_until(lambda: has_written(counts), tool)
            server.send_signal(signal.SIGSTOP)
            tool.send_signal(signal.SIGTERM)
            said = tool.communicate(timeout=PATIENCE_S)[1]
            assert tool.returncode != 0
            assert f"and remain on {url}: Bonnie.{tool.pid}" in said, said


def wait_until(is_so: Callable[[], bool], tool: subprocess.Popen[str]) -> None:
    """Wait for a condition, and fail if the tool ends first."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline and tool.poll() is None
        time.sleep(0.01)


def carried_out(
    to: _native.Target, size: int, most_s: float = PATIENCE_S, timeout_s: float | None = None
) -> dict[str, dict[str, Any]]:
    """Return the counts of each phase, with its requests by name."""
    spec = {
        "clients": 1,
        "file": f"Bonnie.{os.getpid()}",
        "bytes": size,
        "chunk_bytes": 16384,
        "stdio_bytes": MIB,
        "seeks": 100,
        "check": True,
        "seekers": 3,
        "seed": 1,
    }
    found = carried_out_alone(to, {"bonnie": spec}, most_s, timeout_s=timeout_s)
    phases = dict(zip(PHASES, found, strict=True))
    for phase in phases.values():
        phase["requests"] = {row["request"]: row["count"] for row in phase["requests"]}
    return phases


@needs_root
def test_over_nfs_the_phases_are_reads_writes_and_commits() -> None:
    # A workstation's client cache, against a real Ganesha in its own network.
    size = 2 * MIB
    with ganesha() as server:
        phases = carried_out(nfs_target(server), size)
        assert list(phases) == PHASES
        for name in ("putc", "write"):
            requests = phases[name]["requests"]
            assert requests["WRITE"] >= size // MIB and requests["COMMIT"] >= 1, requests
        assert phases["read"]["bytes_read"] == size
        assert libnfs(server, "nfs-ls", server.access().shares[0]).strip() == b""
