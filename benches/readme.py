"""The README of one execution of the benchmarks: targets, results, method and machine."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benches import peers
from benches.accuracy import TIMES
from benches.bonnie import BonnieCase
from benches.files import FileCase
from benches.objects import ObjectCase
from benches.ratios import Spread
from benches.results import Results, Row
from benches.rounds import FOREIGN_LIMIT, Run
from benches.speed import Case
from serverdyno.probes.host import host_facts
from serverdyno.servers.registry import driver_type

ROOT = Path(__file__).parent.parent

METHOD = """\
- The generator and the server are each pinned to one CPU, and communicate over loopback. Every round runs each tool
  once, in alternating order (A B C, then C B A), against one server that stays up for all rounds of a comparison.
- Before each run, we wait (for a bounded time) until other programs use less than 5 % of a CPU. A run is repeated if
  other programs or the hypervisor (steal) used more than {limit} % of a CPU, up to {attempts} runs in all. The least
  disturbed run is kept. If it was disturbed, too, it is counted as *disturbed* below. `raw.csv` contains all runs.
- Requests are counted by the tool itself, without wrk's and ab's answers other than 2xx. CPU time is the user and
  system time of the tool's process (`wait4`). For `dyno`, it is measured from just before the level to just after it,
  so the start of the interpreter is excluded. The server's CPU time is the sum over its processes (ticks of 10 ms).
- Ratios are computed from runs of the same round. Intervals follow from the sign test for the median (at least 95 %;
  six rounds or more). A target counts as met only if the whole interval meets it.
- `dyno` validates the head and the length of every response, and records every response time in an HDR histogram.
  On the WebBench tree it also compares every byte of every body (XXH3-64 of the expected content).
- Every tool and every server uses the congestion control in the table below. For this, `make bench` runs them in a
  separate network namespace.
- On loopback, the server's FIN has already arrived when `dyno` ends a connection. `dyno` then sends a FIN, as any close
  does, and connects again from the same socket. The packets are the same, but no socket, file and epoll registration
  is created and removed. `dyno, new sockets` creates a new socket for each connection, as wrk and ab do. Off loopback,
  `dyno` always does so.
- `close` means a new connection for each request. dyno and wrk send HTTP/1.1 with `Connection: close`, ab sends
  HTTP/1.0. `dyno, reset` ends its connections with a reset, which no browser does. This option is off by default; it
  is shown for information, and has no target.
"""

BONNIE = """\
- bonnie++ reports when a phase begins and ends; the clock of its CPU time is read at these moments. Its own figures are
  rounded, and missing for phases below half a second.
"""

CAVEATS = """\
- Loopback: much of the receiver's network work is done in the sender's system call. So "generator CPU" contains work of
  the server's kernel side, most of all for connects, and "server CPU" contains work of the generator's side.
- The machine is virtual, and its host has other guests. Differences of a few per cent between two executions are not
  findings. Ratios within one execution are more reliable than absolute figures.
- Generator and server have one CPU each. If the server's CPU is the busier one (see the columns *busy*), the ratio of
  requests/s says little about the generators; the CPU time per request says more.
"""


COUNTED = """\
nginx: lines of its access log. Reference server: its counter. Samba: the counters of smbd's processes (`smbstatus
--profile`). They count all SMB2 requests from the first client's connection to the last client's end, including those
that create and remove workspaces; each part of a compound counts once. Some requests are also compared by name.
"""

FILES = """\
- Samba is private, with its own network, users and counters. Its files are in memory (/dev/shm) if there is room. SMB1
  is enabled for smbtorture. smbd's processes share one CPU; the client's processes use the other.
- Every tool is measured between two moments: when its window opens, after all clients have connected and have their
  files, and when it closes. CPU time is read at both moments: for smbtorture's processes (one per client) from the
  kernel's schedstat, for `dyno` by getrusage, for smbd in ticks. smbclient has no window: its rate is the one that it
  prints, and the CPU time of a call without a transfer is subtracted from its CPU time.
- Replay: both tools replay the load file of Debian's `dbench`. smbtorture (`bench.nbench`) speaks SMB1, has no cache
  and does not check contents. `dyno` speaks SMB 3.1.1 without a cache, writes incompressible data, compares every byte
  that it reads, and records every response time. `dyno, with leases` has a client cache: fewer requests reach the
  server, so it has no target. An operation is one line of the load file. Once per second, smbtorture prints the mean
  number of lines that its clients have done. Its window opens when this mean exceeds the lines that create files by a
  quarter.
- Streams: a load file opens one file, transfers it in pieces of 64 KiB, and closes it. With leases, write-behind and
  read-ahead combine the pieces into requests of any size, with several under way, as in smbclient. Without leases, one
  piece is under way at a time.
- NFS: the server is a private Ganesha. `dyno` transfers a file as above, with close-to-open rules: UNSTABLE writes, and
  a COMMIT at the close. nfs-cp copies a whole file of random bytes once per run, from a local file or to one in memory;
  the CPU time of copying one byte is subtracted. Listings: `dyno` reads names and attributes and keeps none, nfs-ls
  prints them to /dev/null. Random reads: 32 are under way at once on one connection. A program in C
  (`benches/random_reads.c`) reads with libnfs and discards the data. `dyno` also discards the data; a separate row
  shows it with a check of each block. `dyno` sends each request immediately (TCP_NODELAY, like Linux's client). libnfs
  does not set TCP_NODELAY, so the kernel combines its requests; a separate row shows libnfs with it. Sessions are
  measured as below, on Ganesha.
- Sessions: one engine thread, and one smbd process per session. Memory when all sessions are idle: for `dyno`, the
  growth of the resident set; for smbd, the proportional set sizes of all its processes.
"""

OBJECTS = """\
- All tools use one reference S3 server in memory, without an access key: it accepts unsigned requests and verifies no
  signature. Each connection has one request at a time. Objects are put before the window.
- minio-go (version in `benches/minio_loop/go.mod`) is the Go library of MinIO's own load generator. Here it runs in a
  loop with one goroutine per connection and the runtime's defaults. Both clients sign the head of each request
  (Signature Version 4, unsigned payload), and compute and send a CRC32 in a header of each PUT. Neither retries.
  minio-go checks the length of a GET and discards its content. `dyno` also compares the ETag and every byte, records
  every response time, and puts new content each time.
- s5cmd is measured as a whole command: 40 MiB of objects, at most 2,000 operations, from a file of commands. Its CPU
  time includes its start, its log, and the file that it reads or the pipe that it writes. It signs its requests, and
  sends no checksum.
- Cases over TLS use the same server with an ECDSA certificate, which no client verifies.
- `dyno, unchecked` does not compare the content of a GET, and sends no CRC32 with a PUT.
- `dyno, plain HTTP` gets or puts one object on the same server without a signature, a checksum or a ledger.
- Both clients print a line when their window opens and when it closes. The CPU time of the whole process is read at
  both moments; that of the server in ticks. Memory is the growth of the resident set from before the level to the
  opening of the window.
"""


def readme(results: Results, title: str) -> str:
    """Return the README as Markdown."""
    of_objects = [case for case in results.file_cases if isinstance(case, ObjectCase)]
    of_files = len(results.file_cases) > len(of_objects)
    parts = [
        f"# {title}",
        f"`{results.command}`, at {_commit()}; {results.effort.rounds} rounds of {results.effort.seconds:g} s; "
        f"took {results.took_s / 60:.0f} minutes.",
        "## Targets",
        _targets(results.targets()),
        *(["Left out:", _list(results.left_out)] if results.left_out else []),
        *(part for case in results.cases() for part in _case(case, results)),
        *_counts(results),
        *_times(results),
        "## Method",
        METHOD.format(limit=round(100 * FOREIGN_LIMIT), attempts=results.effort.attempts),
        *(["## Method: file servers", FILES] if of_files else []),
        *(["## Method: objects", OBJECTS] if of_objects else []),
        *(
            ["## Method: Bonnie", BONNIE]
            if any(isinstance(case, BonnieCase) for case in results.cases())
            else []
        ),
        "## Caveats",
        CAVEATS,
        "## Machine and versions",
        _list(f"{name}: {value}" for name, value in _facts()),
    ]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def _targets(rows: Sequence[Row]) -> str:
    return _table(
        ("case", "what", "target", "median", "interval or range", "verdict"),
        (
            (
                row.case,
                f"{row.subject}: {row.figure}",
                row.target,
                _number(row.spread.median),
                _range(row.spread),
                f"**{row.verdict}**",
            )
            for row in rows
        ),
    )


def _case(case: Case | FileCase | BonnieCase, results: Results) -> list[str]:
    runs = results.kept(case.name)
    rows = []
    for tool in dict.fromkeys(run.tool for run in runs):
        own = [run for run in runs if run.tool == tool]
        told = (row for row in results.figures() if (row.case, row.subject) == (case.name, tool))
        figures = {row.figure: _spread(row.spread) for row in told}
        rows.append(
            (
                tool,
                *(figures.get(name, "") for name in case.figures),
                _busy(own, lambda run: run.generator_cpu_s),
                _busy(own, lambda run: run.server_cpu_s or 0.0),
                sum(run.errors for run in own),
                f"{sum(run.noisy for run in own)} of {len(own)}",
            )
        )
    columns = ("tool", *case.figures, "generator busy", "server busy", "errors", "disturbed")
    return [
        f"## {case.title}",
        f"Median [lowest - highest] of the rounds; `{case.name}`.",
        _table(columns, rows),
    ]


def _busy(runs: Sequence[Run], cpu_s: Any) -> str:
    return f"{sum(map(cpu_s, runs)) / sum(run.measured_s for run in runs):.0%}"


def _counts(results: Results) -> list[str]:
    parts = []
    if counted := [run for run in results.runs if run.case.startswith("count-") and run.kept]:
        rows = [
            (run.case, run.round + 1, f"{run.requests:,}", f"{run.server_requests:,}", run.errors)
            for run in counted
        ]
        columns = ("case", "round", "requests by dyno", "requests by the server", "errors")
        parts += ["## Requests counted", COUNTED]
        parts.append(_table(columns, rows))
    return parts


def _times(results: Results) -> list[str]:
    if not results.comparisons:
        return []
    rows = [
        (
            found.case,
            found.round + 1,
            f"{found.kind} {found.quantile}",
            f"{found.ours_s * 1e3:.3f}",
            f"{found.wire_s * 1e3:.3f}",
            f"{found.error:+.2%}",
            f"{found.ours_count:,} / {found.wire_count:,}",
            f"{found.foreign_cpu_share:.0%}",
        )
        for found in results.comparisons
    ]
    columns = ("case", "round", "time", "dyno, ms", "wire, ms", "difference", "samples", "others' CPU")
    return [
        "## Response times",
        "Wire: from the client's first segment for a request (the first SYN, if it opened a connection) to the "
        "last segment of the answer, by the kernel's own timestamps on loopback.",
        _list(f"`{case.name}`: {case.title}." for case in TIMES),
        _table(columns, rows),
    ]


def _facts() -> Iterable[tuple[str, object]]:
    host: Any = host_facts()
    yield "processor", f"{host['cpu']['model']}, {host['cpu']['logical']} CPUs, {host['cpu']['cores']} cores"
    yield "under a hypervisor", host["virtualisation"]["hypervisor_flag"]
    yield "memory", f"{host['memory']['total_bytes'] / 2**30:.1f} GiB"
    yield "kernel", f"{host['system']['kernel']} ({host['system']['kernel_build']})"
    yield "kernel parameters", " ".join(host["system"]["kernel_parameters"])
    yield "clock source", host["system"]["clocksource"]
    yield "distribution", host["system"]["distribution"]
    yield from host["software"].items()
    for name in (
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_tw_reuse",
        "net.core.somaxconn",
        "net.ipv4.tcp_congestion_control",
    ):
        yield name, host["sysctls"][name]
    nginx = driver_type("nginx").installed()
    yield "nginx", nginx.version if nginx else "not installed"
    samba = driver_type("samba").installed()
    yield "Samba", samba.version if samba else "not installed"
    yield from peers.versions().items()


def _commit() -> str:
    """Return the commit of the checkout, with a note if files differ from it."""
    command = [
        "git",
        "-C",
        str(ROOT),
        "describe",
        "--always",
        "--dirty=, with changes that are not committed",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return f"commit {done.stdout.strip()}" if done.returncode == 0 else "a commit that is not known"


def _number(value: float) -> str:
    """Return the value with four significant digits."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _spread(found: Spread) -> str:
    return f"{_number(found.median)} [{_number(found.low)} - {_number(found.high)}]"


def _range(spread: Spread) -> str:
    if spread.n == 1:
        return ""
    low, high = spread.interval or (spread.low, spread.high)
    return f"{_number(low)} - {_number(high)} ({'interval' if spread.interval else 'range'}, n = {spread.n})"


def _list(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
