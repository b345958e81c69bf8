"""The benches with tiny parameters, so that they can't rot; and the arithmetic behind their verdicts.

No figure is judged here, because that takes a quiet machine and more time.
"""

from __future__ import annotations

import csv
import http.client
import re
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from benches import (
    accuracy,
    builds,
    http2,
    publish,
    speed,
    startup,
    tls,
)
from benches.ratios import Bound, GoalVerdict, spread
from benches.rounds import BenchError, Effort, Run, Stand, cpus, rounds, run_tool
from benches.speed import Goal
from benches.tools import ab_account, dyno, h2load_account, oha_account, wrk_account
from benches.wire import SYN, Segment, Wire, exchanges

from serverdyno.servers.running import running
from support.dyno_process import two_cpus
from support.places import ROOT

TINY = Effort(rounds=2, seconds=0.3, patience_s=0, attempts=1)
WRK = """\
Running 3s test @ http://127.0.0.1:8080/
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   410.49us  187.57us   6.58ms   96.50%
    Req/Sec   159.04k     7.04k  165.29k    83.33%
  474639 requests in 3.01s, 543.61MB read
{trouble}Requests/sec: 157811.60
Transfer/sec:    180.74MB
"""
AB = """\
Concurrency Level:      64
Time taken for tests:   2.500 seconds
Complete requests:      60000
Failed requests:        {failed}
   (Connect: 0, Receive: 0, Length: {failed}, Exceptions: 0)
{non2xx}Total transferred:      70140000 bytes
Requests per second:    24000.10 [#/sec] (mean)
"""


def run_with(tool: str, number: int, requests_s: float, cpu_s: float = 1.0) -> Run:
    return Run(
        case="reference-keep-alive",
        tool=tool,
        round=number,
        attempt=0,
        kept=True,
        started_utc="2026-01-15T10:00:00Z",
        connections=64,
        requests=100_000,
        requests_s=requests_s,
        errors=0,
        server_requests=100_000,
        generator_cpu_s=cpu_s,
        server_cpu_s=None,
        measured_s=3.0,
        foreign_cpu_share=0.0,
        quiet_before=True,
        time_wait_before=0,
        details={},
    )


def test_an_interval_leaves_out_only_as_many_rounds_as_the_sign_test_allows() -> None:
    assert spread([1.0, 2, 3, 4, 5]).interval is None
    assert spread([6.0, 1, 2, 3, 4, 5]).interval == (1, 6)
    # Two-sided risk with one of nine rounds left out on each side: 2 x 10/512 = 3.9 %; with two, 17.9 %.
    nine = spread([9.0, 1, 2, 3, 4, 5, 6, 7, 8])
    assert (nine.median, nine.low, nine.high, nine.interval) == (5, 1, 9, (2, 8))


@pytest.mark.parametrize(
    ("values", "bound", "verdict"),
    [
        ([1.25, 1.3, 1.2], Bound(1.2), GoalVerdict.MET),
        ([1.19, 1.3, 1.25], Bound(1.2), GoalVerdict.MET_IN_THE_MEDIAN),
        ([1.19, 1.1, 1.25], Bound(1.2), GoalVerdict.MISSED_IN_THE_MEDIAN),
        ([1.1, 1.19, 1.0], Bound(1.2), GoalVerdict.MISSED),
        ([0.9, 1.0], Bound(1.0, at_least=False), GoalVerdict.MET),
        ([1.01, 1.2], Bound(1.0, at_least=False), GoalVerdict.MISSED),
    ],
)
def test_a_target_is_met_only_where_the_whole_interval_keeps_it(
    values: list[float], bound: Bound, verdict: GoalVerdict
) -> None:
    assert bound.verdict(spread(values)) is verdict


def test_a_ratio_is_taken_within_a_round_and_to_the_best_of_the_peers() -> None:
    runs = [
        run_with("dyno", 0, 300.0, cpu_s=1.0),
        run_with("wrk", 0, 200.0, cpu_s=2.0),
        run_with("ab", 0, 100.0, cpu_s=4.0),
        run_with("dyno", 1, 30.0, cpu_s=1.0),
        run_with("wrk", 1, 10.0, cpu_s=4.0),
        run_with("ab", 1, 15.0, cpu_s=3.0),
        replace(run_with("dyno", 1, 1000.0), kept=False),
        run_with("dyno", 2, 1000.0),
    ]
    rate = Goal("dyno", ("wrk", "ab"), "requests/s", Bound(1.1)).ratios(runs, speed.FIGURES)
    cost = Goal("dyno", ("wrk", "ab"), "generator CPU, us/request", Bound(1.0, at_least=False)).ratios(
        runs, speed.FIGURES
    )
    assert rate is not None and (rate.low, rate.high, rate.n) == (1.5, 2.0, 2)
    assert cost is not None and [cost.low, cost.high] == pytest.approx([1 / 3, 1 / 2])
    assert Goal("dyno", ("none",), "requests/s", Bound(1.1)).ratios(runs, speed.FIGURES) is None


def test_a_round_whose_best_peer_is_too_small_to_be_measured_has_no_ratio() -> None:
    runs = [
        run_with("dyno", 0, 300.0, cpu_s=1.0),
        run_with("wrk", 0, 300.0, cpu_s=0.0),
        run_with("dyno", 1, 300.0, cpu_s=1.0),
        run_with("wrk", 1, 300.0, cpu_s=2.0),
    ]
    goal = Goal("dyno", ("wrk",), "generator CPU, us/request", Bound(1.0, at_least=False))
    found = goal.ratios(runs, speed.FIGURES)
    assert found is not None and (found.low, found.n) == (0.5, 1)
    assert goal.ratios(runs[:2], speed.FIGURES) is None


def test_what_wrk_calls_a_request_and_was_refused_is_an_error() -> None:
    good = wrk_account(WRK.format(trouble=""))
    assert (good.requests, good.requests_in_window, good.window_s, good.errors) == (474_639, 474_639, 3.01, 0)
    trouble = "  Socket errors: connect 1, read 2, write 3, timeout 4\n  Non-2xx or 3xx responses: 474000\n"
    bad = wrk_account(WRK.format(trouble=trouble))
    assert (bad.requests, bad.requests_in_window, bad.errors) == (474_639, 639, 474_010)


def test_what_ab_calls_complete_and_was_refused_is_an_error() -> None:
    good = ab_account(AB.format(failed=0, non2xx=""))
    assert (good.requests, good.requests_in_window, good.window_s, good.errors) == (60_000, 60_000, 2.5, 0)
    bad = ab_account(AB.format(failed=3, non2xx="Non-2xx responses:      7\n"))
    assert (bad.requests_in_window, bad.errors) == (59_990, 10)


def part(at_ns: int, *, client: bool, flags: int = 0, payload: int = 0, port: int = 40_000) -> Segment:
    return Segment(at_ns, client, port, flags, payload)


def test_what_h2load_calls_done_and_did_not_succeed_is_an_error() -> None:
    told = h2load_account(
        "finished in 2.50s, 400.00 req/s, 1.00KB/s\n"
        "requests: 1000 total, 1000 started, 1000 done, 900 succeeded, 100 failed, 0 errored, 0 timeout\n"
    )
    assert (told.requests, told.requests_in_window, told.window_s, told.errors) == (1000, 900, 2.5, 100)


def test_what_oha_aborts_at_its_end_is_no_error() -> None:
    told = oha_account(
        '{"summary": {"total": 2.0}, "statusCodeDistribution": {"200": 90, "404": 10}, '
        '"errorDistribution": {"aborted due to deadline": 64, "refused": 2}}'
    )
    assert (told.requests, told.requests_in_window, told.window_s, told.errors) == (100, 90, 2.0, 12)


def test_an_exchange_runs_from_the_first_syn_or_request_to_the_last_of_the_answer() -> None:
    segments = [
        part(100, client=True, flags=SYN),
        part(1100, client=True, flags=SYN),  # sent again
        part(1101, client=False, flags=SYN),
        part(1110, client=True, payload=90),
        part(1200, client=False, payload=1400),
        part(1300, client=False, payload=200),
        part(1310, client=True),  # acknowledges
        part(2000, client=True, payload=90),
        part(2001, client=True, payload=90, port=40_001),  # without an answer
        part(2500, client=False, payload=1600),
    ]
    found = exchanges(segments)
    assert [(each.start_ns, each.connected_ns, each.end_ns) for each in found] == [
        (100, 1101, 1300),
        (2000, None, 2500),
    ]
    assert [(each.response_ns, each.connect_ns) for each in found] == [(1200, 1001), (500, None)]


def test_the_wire_shows_every_request_once_and_no_other_port() -> None:
    with running("reference", {"body_bytes": 100}) as server:
        port = int(server.url.rstrip("/").rpartition(":")[2])
        try:
            wire = Wire(port)
        except PermissionError:
            pytest.skip("packet sockets need root")
        with wire, socket.create_server(("127.0.0.1", 0)) as other:
            socket.create_connection(other.getsockname()).close()
            connection = http.client.HTTPConnection("127.0.0.1", port)
            for _ in range(3):
                connection.request("GET", "/")
                connection.getresponse().read()
            local_port = connection.sock.getsockname()[1]
            connection.close()
            segments = wire.segments()
    assert {segment.client_port for segment in segments} == {local_port}
    found = exchanges(segments)
    assert [each.connected_ns is not None for each in found] == [True, False, False]
    assert all(each.response_ns > 0 for each in found)


@two_cpus
def test_rounds_turn_their_order_round_and_know_what_server_and_tool_counted() -> None:
    tools = [dyno(connections=4), dyno("other", 4, keep_alive=False)]
    with running("reference", {"body_bytes": 100}) as server:
        runs = rounds(Stand("case", server, "/", cpus(), TINY), tools)
    assert [(run.round, run.tool) for run in runs] == [(0, "dyno"), (0, "other"), (1, "other"), (1, "dyno")]
    for run in runs:
        assert run.requests == run.server_requests
        assert run.requests > 0
        assert run.errors == 0
        assert run.generator_cpu_us > 0


@two_cpus
def test_a_disturbed_run_is_repeated_and_one_of_a_round_is_kept() -> None:
    effort = replace(TINY, rounds=1, attempts=2, patience_s=0.01)  # one check of the machine
    burner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        with running("reference", {"body_bytes": 100}) as server:
            runs = rounds(Stand("case", server, "/", cpus(), effort), [dyno(connections=4)])
    finally:
        burner.kill()
        burner.wait()
    assert [run.attempt for run in runs] == [0, 1]
    assert all(run.noisy for run in runs)
    assert sum(run.kept for run in runs) == 1


IN_SHORT = ("reference-keep-alive", "nginx-same-rate", "apache-cgi", "tls-keep-alive", "http2-tls")


def comparisons() -> list[speed.Case]:
    """Return every case, with a peer only in the first of the cases that run it with the same command."""
    called: set[str] = set()
    found = []
    for case in [*speed.cases(), *tls.cases(), *http2.cases()]:
        scheme = "https" if case.settings.get("tls") else "http"
        calls = {tool.name: re.sub(r"\d+", "", " ".join(tool.command(scheme, 1.0))) for tool in case.tools}
        tools = [
            each for each in case.tools if each.program == sys.executable or calls[each.name] not in called
        ]
        called |= set(calls.values())
        found.append(replace(case, tools=tuple(tools)))
    return found


def marks(case: speed.Case) -> list[pytest.MarkDecorator]:
    """Mark a comparison as long unless it is in `IN_SHORT`. `make bench` runs all, too."""
    return [] if case.name in IN_SHORT else [pytest.mark.long]


@two_cpus
@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.name, marks=marks(case)) for case in comparisons()]
)
def test_every_comparison_runs_and_no_request_of_any_tool_fails(case: speed.Case) -> None:
    if not case.installed:
        pytest.skip(f"{case.server} is not installed here")
    # On a busy machine, the first answers take a while: handshakes, CGI programs, and, with a connection per request,
    # SYNs that the full queue of the last tool's connections drops and that are repeated after a second.
    seconds = 1.5 if case.name.endswith(("close", "cgi")) else 1.0
    runs = case.carry_out(cpus(), replace(TINY, rounds=1, seconds=seconds))
    assert {run.tool for run in runs} == {tool.name for tool in case.tools if tool.installed}
    assert [run.errors for run in runs] == [0] * len(runs)


@two_cpus
def test_another_checkout_is_called_as_it_stands_and_compared_round_by_round(tmp_path: Path) -> None:
    case = next(builds.build_cases(_checkout_that_tells_where_it_runs(tmp_path)))
    runs = case.carry_out(cpus(), replace(TINY, rounds=1))
    assert [run.tool for run in runs] == ["dyno", builds.BEFORE]
    assert [run.errors for run in runs] == [0, 0]
    assert [run.details.get("ran_in") for run in runs] == [None, str(tmp_path)]
    assert case.goals[0].ratios(runs, case.figures)


def _checkout_that_tells_where_it_runs(folder: Path) -> Path:
    (folder / "python").symlink_to(ROOT / "python")
    (folder / "benches").mkdir()
    (folder / "benches" / "generator.py").write_text(
        f"""
import json, os, sys
sys.path.insert(0, {str(ROOT)!r})
del sys.modules["benches"]
from benches import generator
print(json.dumps(generator.run(json.loads(sys.argv[1])) | {{"ran_in": os.getcwd()}}))
"""
    )
    return folder


@two_cpus
@pytest.mark.parametrize("case", accuracy.TIMES, ids=lambda case: case.name)
def test_as_many_response_times_are_recorded_as_pass_over_the_wire(case: accuracy.TimeCase) -> None:
    try:
        found = accuracy.times(cpus(), replace(TINY, rounds=1, seconds=1.5), [case])
    except PermissionError:
        pytest.skip("packet sockets need root")
    assert {comparison.quantile for comparison in found} == {"p50", "p90", "p99"}
    for comparison in found:
        # Requests that end just at the end of the window may be counted by only one of the two.
        assert abs(comparison.ours_count - comparison.wire_count) <= case.options["clients"]
        # The wire's times are shorter if both cover the same responses; an HDR bucket is 0.1 % wide.
        same = comparison.ours_count == comparison.wire_count
        assert not same or comparison.wire_s * 0.999 <= comparison.ours_s


@two_cpus
def test_a_tool_without_success_is_an_error_and_not_a_figure() -> None:
    with pytest.raises(BenchError, match=r"(?s)no success.*Connection refused"):
        run_tool(dyno(), "http://127.0.1.0:1/", 0.1, cpus().generator)


def folder_of(part: str, into: Path) -> Path:
    """Return the folder that one part writes with tiny parameters."""
    command = [sys.executable, "-m", "benches", "--only", part, "--patience", "0", "--into", str(into)]
    subprocess.run([*command, "--rounds", "1", "--seconds", "0.5"], cwd=ROOT, check=True)
    (folder,) = into.iterdir()
    return folder


def test_the_start_of_each_command_has_a_row_for_its_cpu_time_and_one_for_its_memory(tmp_path: Path) -> None:
    folder = folder_of("startup", tmp_path)
    with (folder / "starts.csv").open() as file:
        starts = list(csv.DictReader(file))
    with (folder / "summary.csv").open() as file:
        rows = {(row["subject"], row["figure"]): row for row in csv.DictReader(file)}
    assert [start["command"] for start in starts] == [*startup.TARGETS]
    assert rows.keys() == {
        (name, figure) for name in startup.TARGETS for figure in ("CPU time, s", "peak memory, MB")
    }
    for start in starts:
        assert rows[start["command"], "CPU time, s"]["median"] == start["cpu_s"]
        # An interpreter without our modules takes 8 MB.
        assert float(start["peak_mb"]) > 10
        assert f"| start | {start['command']}: CPU time, s |" in (folder / "README.md").read_text()


@two_cpus
def test_a_part_can_be_run_alone_and_leaves_a_folder_with_every_run(tmp_path: Path) -> None:
    folder = folder_of("counts", tmp_path)
    assert folder.name.endswith(publish.machine_name())
    text = (folder / "README.md").read_text()
    with (folder / "raw.csv").open() as file:
        runs = list(csv.DictReader(file))
    with (folder / "summary.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {(row["case"], row["verdict"]) for row in rows} == {(run["case"], "met") for run in runs}
    for run in runs:
        assert run["requests"] == run["server_requests"]
        assert f"| {int(run['requests']):,} | {int(run['server_requests']):,} |" in text
    assert publish.folder_for(tmp_path).name == f"{folder.name}-2"
