"""The benches of file servers with tiny parameters, so that they can't rot; and how other tools' output is read.

Only counts are judged here, because they are right or wrong on any machine.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from benches import bonnie, builds, files, load_files, nfs, objects, peers
from benches.file_runs import FileStand, one_run
from benches.file_server import running_samba
from benches.file_streams import stream_account
from benches.file_tools import DynoListener, Mark, TortureListener, dyno, set_up_lines, smbtorture
from benches.publish import write
from benches.results import Results
from benches.rounds import BenchError, Effort, cpus

from serverdyno import _native
from support.dyno_process import PATIENCE_S, two_cpus
from support.file_server import needs_root, skip_unless_installed
from support.places import ROOT

TINY = Effort(rounds=1, seconds=1.0, patience_s=0, attempts=1)
PROGRAMS = ("smbd", "pdbedit", "smbtorture", "smbclient", "nsenter")


@pytest.fixture
def office(tmp_path: Path) -> Path:
    return load_files.office(tmp_path / "office.load")


def small(load_file: Path) -> files.Sizes:
    return files.Sizes(load_file, clients=(2,), stream_bytes=1 << 20, sessions=(3,))


def torture_says(*progress: tuple[float, int, float, str]) -> tuple[TortureListener, list[Mark | None]]:
    """Return the listener and its marks for two clients with 100 set-up lines.

    Each `progress`: seconds since the start, mean lines, MB/s since the start, phase.
    """
    listener = TortureListener(2, 100, 2.0)
    listener.hear("Running for 19 seconds with load 'x' and warmup 0 secs", 1000.0)
    marks = [
        listener.hear(
            f"   2  {lines:8d}  {rate:.2f} MB/sec  {phase} {at:.0f} sec  latency 0.00 msec ", 1000 + at
        )
        for at, lines, rate, phase in progress
    ]
    return listener, marks


def test_smbtortures_window_has_neither_its_set_up_nor_its_cleanup() -> None:
    listener, marks = torture_says(
        (1.0, 90, 40.0, "execute"),
        (2.0, 300, 30.0, "execute"),
        (3.0, 800, 25.0, "execute"),
        (4.0, 1300, 20.0, "execute"),
        (5.0, 1400, 16.0, "cleanup"),
    )
    assert marks == [None, Mark.OPEN, None, Mark.CLOSED, None]
    account = listener.account()
    # The mean of two clients between the second and the fourth second: 80 MB by then, less 60.
    assert (account.requests_in_window, account.window_s) == (2 * 1000, 2.0)
    assert account.details["bytes_in_window"] == pytest.approx(20e6)
    assert account.errors == 0


def test_a_window_that_never_closed_is_an_error_and_not_a_figure() -> None:
    listener, marks = torture_says((1.0, 90, 40.0, "execute"), (2.0, 95, 30.0, "cleanup"))
    assert marks == [None, None]
    with pytest.raises(BenchError, match="did not finish its set-up"):
        listener.account()


def test_what_smbtorture_complains_of_is_an_error() -> None:
    listener, _ = torture_says((1.0, 200, 40.0, "execute"), (3.0, 300, 30.0, "execute"))
    listener.hear("[12] Error: ReadX should have succeeded - NT_STATUS_INVALID_HANDLE", 1004.0)
    listener.hear("[13] ERROR: ReadX got count 0 expected 4096", 1004.0)
    assert listener.account().errors == 2


def test_smbclients_rates_are_kibibytes_and_a_failed_transfer_is_an_error() -> None:
    said = r"putting file a as \b (1024.0 kb/s) (average 9.9 kb/s)"
    account = stream_account(f"{said}\n{said}\n", 2, 1 << 20)
    assert (account.requests, account.window_s) == (32, 2.0)
    got = r"getting file \b of size 1048576 as /dev/null (512.0 KiloBytes/sec) (average 9 KiloBytes/sec)"
    assert stream_account(got, 1, 1 << 20).window_s == 2.0
    with pytest.raises(BenchError, match="made 1 transfers of 2"):
        stream_account(said, 2, 1 << 20)


def test_ours_has_no_account_without_a_result() -> None:
    listener = DynoListener()
    assert listener.hear(json.dumps({"moment": "open", "cpu_s": 1.0}), 0.0) is Mark.OPEN
    assert listener.hear("RuntimeError: the level does not end", 0.0) is None
    with pytest.raises(BenchError, match="the level does not end"):
        listener.account()


def test_the_load_files_that_are_written_are_understood_whole(tmp_path: Path, office: Path) -> None:
    assert office.read_text().splitlines()[set_up_lines(office)].startswith("ReadX")
    assert _native.LoadFile.read(str(office)).counts["ReadX"] == 8
    for way, command in (("write", "WriteX"), ("read", "ReadX")):
        load = _native.LoadFile.read(str(load_files.stream(tmp_path / way, way, 1 << 20)))
        assert load.counts[command] == {"write": 32, "read": 16}[way]


def may_be_0(figure: str, tool: str) -> bool:
    """Return whether a figure of so small a file may be too small to be measured.

    Memory may not grow, a server's CPU time may be less than a tick of 10 ms, and smbclient's less than that of its
    start, which is subtracted.
    """
    return "memory" in figure or "server" in figure or tool == "smbclient"


@pytest.mark.long
@two_cpus
def test_every_comparison_of_file_servers_runs_and_is_published(tmp_path: Path, office: Path) -> None:
    skip_unless_installed(*PROGRAMS)
    results = Results(TINY, "", file_cases=files.cases(tmp_path, small(office)))
    assert files.missing(small(office)) == []
    for case in results.file_cases:
        runs = case.carry_out(cpus(), TINY)
        assert [(run.tool, run.errors) for run in runs] == [(run.tool, 0) for run in runs]
        assert len(runs) == len(case.tools)
        results.runs += runs
    told = {(row.case, row.subject, row.figure): row.spread.median for row in results.figures()}
    for case in results.file_cases:
        for run in results.kept(case.name):
            for figure in case.figures:
                assert may_be_0(figure, run.tool) or told[case.name, run.tool, figure] > 0
    ratios = {row.case for row in results.ratios()}
    for case in results.file_cases:
        measured = [not any(may_be_0(goal.figure, peer) for peer in goal.peers) for goal in case.goals]
        assert case.name in ratios or not any(measured)
    assert ratios
    write(results, tmp_path)
    text = (tmp_path / "README.md").read_text()
    assert all(f"## {case.title}" in text for case in results.file_cases)


@pytest.mark.long
@two_cpus
@needs_root
def test_every_comparison_over_nfs_runs_and_is_published(tmp_path: Path) -> None:
    if absent := nfs.missing():
        pytest.skip(f"not installed here: {', '.join(absent)}")
    sizes = nfs.Sizes(copy_bytes=1 << 20, files=300, sessions=(20,))
    results = Results(TINY, "", file_cases=nfs.cases(tmp_path, sizes))
    for case in results.file_cases:
        runs = case.carry_out(cpus(), TINY)
        assert [(run.tool, run.errors) for run in runs] == [(run.tool, 0) for run in runs]
        assert len(runs) == len(case.tools)
        assert all(run.requests_s > 0 for run in runs)
        results.runs += runs
    [listing] = [run for run in results.kept("nfs-list") if run.tool == nfs.OURS]
    assert listing.requests % sizes.files == 0
    ratios = {row.case for row in results.ratios()}
    assert ratios == {case.name for case in results.file_cases if case.goals}
    write(results, tmp_path)
    text = (tmp_path / "README.md").read_text()
    assert all(f"## {case.title}" in text for case in results.file_cases)


@pytest.mark.long
@two_cpus
def test_every_comparison_of_s3_clients_runs_and_is_published(tmp_path: Path) -> None:
    found = {}
    for name, build in ((objects.PEER, peers.minio_loop), (objects.S5CMD, peers.s5cmd)):
        with contextlib.suppress(BenchError):  # Go or its modules are not available here
            found[name] = build()
    sizes = objects.Sizes((objects.Amount(100 << 10, 4, 2),), 20, 20)
    results = Results(TINY, "", file_cases=objects.cases(sizes, found))
    for case in results.file_cases:
        runs = case.carry_out(cpus(), TINY)
        assert [(run.tool, run.errors) for run in runs] == [(run.tool, 0) for run in runs]
        assert len(runs) == len(case.tools)
        assert all(run.requests_s > 0 for run in runs)
        results.runs += runs
    ratios = {row.subject for row in results.ratios()}
    assert ratios == {
        f"dyno / {other}"
        for other in (objects.PLAIN, objects.PEER)
        if objects.PEER in found or other != objects.PEER
    }
    write(results, tmp_path)
    text = (tmp_path / "README.md").read_text()
    assert all(f"## {case.title}" in text for case in results.file_cases)
    assert "## Method: objects" in text and "## Method: file servers" not in text


@two_cpus
def test_our_count_of_smb_requests_is_the_servers(office: Path) -> None:
    skip_unless_installed(*PROGRAMS)
    runs = files.count(cpus(), TINY, small(office))
    if not runs:
        pytest.skip("smbd's counters need root and a build that has them")
    for run in runs:
        assert run.requests == run.server_requests
        assert run.requests > 0
        assert run.errors == 0
    assert {run.case for run in runs} >= {f"count-samba-{cache}" for cache in ("none", "leases")}
    assert {run.case for run in runs} >= {f"count-samba-none-{name}" for name in ("read", "flush")}


@two_cpus
def test_a_tool_that_is_ended_leaves_no_process_and_no_file_and_continues_nobody(office: Path) -> None:
    skip_unless_installed(*PROGRAMS)
    with (
        running_samba([cpus().server]) as server,
        subprocess.Popen(["sleep", str(PATIENCE_S)]) as bystander,
    ):
        bystander.send_signal(signal.SIGSTOP)
        one_run(FileStand("case", server, cpus(), TINY), smbtorture("smbtorture", office, 2))
        status = psutil.Process(bystander.pid).status()
        bystander.kill()
        assert status == psutil.STATUS_STOPPED
        children = psutil.Process().children(recursive=True)
        assert "smbtorture" not in {child.name() for child in children}
        (share,) = server.data_directories()
        assert [path.name for path in share.iterdir()] == [server.proof()[0]]


@two_cpus
def test_a_tool_that_is_refused_is_an_error_and_not_a_figure(office: Path) -> None:
    skip_unless_installed(*PROGRAMS)
    with running_samba([cpus().server]) as server:
        server.secret = "wrong"
        stand = FileStand("case", server, cpus(), TINY)
        for tool in (smbtorture("smbtorture", office, 1), dyno("dyno", office, "none")):
            with pytest.raises(BenchError):
                one_run(stand, tool)


@needs_root
@two_cpus
def test_streams_and_bonnie_of_another_checkout_are_compared_with_ours(tmp_path: Path) -> None:
    skip_unless_installed(*PROGRAMS)
    effort, experiments = replace(TINY, seconds=0.5), {*ROOT.glob("experiments/*")}
    case = next(case for case in builds.file_cases(ROOT, tmp_path, 1 << 20) if case.name == "builds-smb-read")
    runs = case.carry_out(cpus(), effort)
    runs += bonnie.carry_out(cpus(), effort, 1, builds.bonnies(ROOT), builds.BONNIE)
    found = {(run.case, run.tool) for run in runs}
    assert found == {
        (case.name, builds.OURS),
        (case.name, builds.BEFORE),
        *((each.name, tool) for each in builds.BONNIE for tool in (bonnie.UNCHECKED, builds.BEFORE)),
    }
    assert [run.errors for run in runs] == [0] * len(runs)
    assert {*ROOT.glob("experiments/*")} == experiments, "nothing is left in the checkout"
