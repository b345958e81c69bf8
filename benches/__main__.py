"""Run all benchmarks, or the named part, and write a dated folder: `python -m benches`."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from benches import (
    accuracy,
    bonnie,
    builds,
    files,
    http2,
    nfs,
    objects,
    peers,
    speed,
    startup,
    tls,
)
from benches.file_server import data_directory
from benches.publish import folder_for, write
from benches.results import Results
from benches.rounds import BenchError, Cpus, Effort, cpus
from benches.wire import WireError
from serverdyno.errors import DynoError

RUNS = Path(__file__).parent / "runs"


def run_speed(results: Results, places: Cpus, effort: Effort) -> None:
    _carry_out(speed.cases(), results, places, effort)


def run_tls(results: Results, places: Cpus, effort: Effort) -> None:
    _carry_out(tls.cases(), results, places, replace(effort, rounds=min(tls.ROUNDS, effort.rounds)))


def run_http2(results: Results, places: Cpus, effort: Effort) -> None:
    """Compare HTTP/2 with several streams per connection against h2load."""
    _carry_out(http2.cases(), results, places, effort)


def run_builds(results: Results, places: Cpus, effort: Effort) -> None:
    """Compare this build with the one named by --against; without that option, do nothing."""
    if results.against is None:
        return
    web = [*builds.build_cases(results.against)]
    results.build_cases = [*web, *builds.BONNIE]
    _carry_out(web, results, places, effort)
    with tempfile.TemporaryDirectory(prefix="serverdyno-bench-", dir=data_directory()) as folder:
        of_files = builds.file_cases(results.against, Path(folder))
        results.build_cases += of_files
        _carry_out_files(of_files, results, places, effort)
    _say("Bonnie's phases on a directory in memory")
    programs = builds.bonnies(results.against)
    results.runs += bonnie.carry_out(places, effort, programs_in=programs, cases=builds.BONNIE)


def _carry_out(cases: Iterable[speed.Case], results: Results, places: Cpus, effort: Effort) -> None:
    for case in cases:
        if case.installed:
            _say(case.title)
            results.runs += case.carry_out(places, effort)
        else:
            results.left_out.append(f"{case.name}: {case.server} is not installed here")


def _carry_out_files(cases: Iterable[files.FileCase], results: Results, places: Cpus, effort: Effort) -> None:
    for case in cases:
        _say(case.title)
        results.runs += case.carry_out(places, effort)


def run_counts(results: Results, places: Cpus, effort: Effort) -> None:
    """Compare our counts with the servers'."""
    _say("requests counted by us and by the server")
    results.runs += accuracy.count(places, effort)


def run_times(results: Results, places: Cpus, effort: Effort) -> None:
    """Compare our response times with those on the wire.

    Without permission to capture packets, report the times as left out.
    """
    _say("response times against the kernel's timestamps")
    try:
        results.comparisons += accuracy.times(places, effort)
    except (PermissionError, WireError) as error:
        results.left_out.append(f"response times against the wire: {error}")


def run_files(results: Results, places: Cpus, effort: Effort) -> None:
    """Run the benchmarks of file servers: replay, streams, sessions and counts."""
    sizes = files.Sizes()
    if absent := files.missing(sizes):
        results.left_out.append(f"file servers: not installed here: {', '.join(absent)}")
        return
    with tempfile.TemporaryDirectory(prefix="serverdyno-bench-", dir=data_directory()) as folder:
        results.file_cases = files.cases(Path(folder), sizes)
        _carry_out_files(results.file_cases, results, places, effort)
    _say("SMB requests counted by us and by the server")
    results.runs += files.count(places, effort, sizes)


def run_nfs(results: Results, places: Cpus, effort: Effort) -> None:
    """Compare copies and listings over NFS with libnfs's tools."""
    if absent := nfs.missing():
        results.left_out.append(f"NFS: not installed here: {', '.join(absent)}")
        return
    with tempfile.TemporaryDirectory(prefix="serverdyno-bench-", dir=data_directory()) as folder:
        cases = nfs.cases(Path(folder), nfs.Sizes())
        results.file_cases = [*results.file_cases, *cases]
        _carry_out_files(cases, results, places, effort)


def run_objects(results: Results, places: Cpus, effort: Effort) -> None:
    """Compare our S3 client with minio-go, s5cmd and plain HTTP."""
    found: dict[str, Path] = {}
    for name, build in ((objects.PEER, peers.minio_loop), (objects.S5CMD, peers.s5cmd)):
        try:
            found[name] = build()
        except BenchError as error:
            results.left_out.append(f"{name}: {error}")
    cases = objects.cases(objects.Sizes(), found)
    results.file_cases = [*results.file_cases, *cases]
    _carry_out_files(cases, results, places, effort)


def run_bonnie(results: Results, places: Cpus, effort: Effort) -> None:
    if bonnie.missing():
        results.left_out.append(f"Bonnie: {bonnie.PROGRAM} is not installed here")
        return
    _say("Bonnie's phases on a directory in memory")
    results.runs += bonnie.carry_out(places, effort)


def run_startup(results: Results, _: Cpus, effort: Effort) -> None:
    """Measure the CPU time and memory that commands take to start."""
    _say("starts of commands")
    results.starts += startup.measured(effort.rounds)


PARTS: dict[str, Callable[[Results, Cpus, Effort], None]] = {
    "speed": run_speed,
    "tls": run_tls,
    "http2": run_http2,
    "builds": run_builds,
    "counts": run_counts,
    "times": run_times,
    "files": run_files,
    "nfs": run_nfs,
    "objects": run_objects,
    "bonnie": run_bonnie,
    "startup": run_startup,
}


def main() -> None:
    """Run the chosen parts and write their results. Exit with 1 if a part fails, after writing what was measured."""
    options = _options()
    attempts = Effort().attempts if options.patience else 1
    effort = Effort(options.rounds, options.seconds, options.patience, attempts)
    results = Results(effort, " ".join(["python -m benches", *sys.argv[1:]]))
    if options.against:
        results.against = options.against
        options.only = ["builds"]
    start = time.monotonic()
    peers.install_missing()
    failed = False
    for name in options.only or PARTS:
        try:
            PARTS[name](results, cpus(), effort)
        except DynoError as error:
            failed = True
            results.left_out.append(f"{name}, from where it failed: {error}")
            _say(f"failed: {error}")
    results.took_s = time.monotonic() - start
    folder = folder_for(options.into)
    write(results, folder)
    print(folder / "README.md")
    sys.exit(1 if failed else 0)


def _options() -> argparse.Namespace:
    defaults = Effort()
    parser = argparse.ArgumentParser(prog="python -m benches", description=__doc__)
    parser.add_argument("--only", action="append", choices=PARTS, help="a part; may be given again")
    parser.add_argument(
        "--against",
        type=Path,
        metavar="CHECKOUT",
        help="another checkout, with its native module built in it: compare the two, and nothing else",
    )
    parser.add_argument("--rounds", type=int, default=defaults.rounds, help="of each comparison")
    parser.add_argument("--seconds", type=float, default=defaults.seconds, help="of each run")
    parser.add_argument(
        "--patience",
        type=float,
        default=defaults.patience_s,
        help="seconds to wait for a quiet machine before a run; 0: never wait, and never repeat a run",
    )
    parser.add_argument("--into", type=Path, default=RUNS, help="where the dated folder is made")
    return parser.parse_args()


def _say(text: str) -> None:
    print(f"benches: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
