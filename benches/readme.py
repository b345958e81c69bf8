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
- Generator and server are pinned to a CPU each and talk over loopback. Every round runs each tool once, in an order
  that turns round (A B C, then C B A), against one server that stays up for all rounds of a comparison.
- Before each run we wait (bounded) until others use less than 5 % of a CPU. A run during which others, or the
  hypervisor (steal), used more than {limit} % of a CPU is repeated, up to {attempts} runs in all; the least disturbed
  is kept and, if it was disturbed all the same, counted as *disturbed* below. `raw.csv` has all of them.
- Requests are the tool's own count. wrk's and ab's answers other than 2xx are taken off. CPU time is `wait4`'s user
  and system time of the tool's process; ours is that of its process from just before the level to just after it, the
  start of the interpreter left out. The server's is the sum over its processes (ticks of 10 ms).
- Ratios are of runs of the same round. Intervals are those of the sign test for the median (at least 95 %; six rounds
  or more), and a target counts as met only where the whole interval keeps it.
- `dyno` validates the head and the length of every response, and records every response time in an HDR histogram.
  On the WebBench tree it also compares every byte of every body (XXH3-64 of the content that it must have).
- Every tool and every server has the congestion control that the table below names; `make bench` gives them a network
  namespace of their own for that.
- On loopback, where the server's FIN is there already, `dyno` ends a connection with a FIN as any close does and dials
  the next one from the same socket: the same packets, without making and unmaking a socket, a file and an epoll
  registration. `dyno, new sockets` makes a new one each time, as wrk and ab do; that is what happens off loopback.
- `close` means a new connection for each request. dyno and wrk send HTTP/1.1 with `Connection: close`, ab sends
  HTTP/1.0. `dyno, reset` ends its connections with a reset, which no browser does: it is off by default, is shown for
  who wonders, and has no target.
"""

BONNIE = """\
- bonnie++ says when a phase begins and ends; the clock of its CPU time is read at these moments. Its own figures are
  rounded, and there are none of phases below half a second.
"""

CAVEATS = """\
- Loopback: much of the receiver's network work is done in the sender's system call, so "generator CPU" contains work
  of the server's kernel side, most of all for connects, and the other way round.
- A virtual machine whose host has other guests: differences of a few per cent between two executions of this are not
  findings; ratios within one are better founded than absolute figures.
- One CPU each for generator and server: where the server's is the busier one (see the columns *busy*), the ratio of
  requests/s says little of the generators, and the CPU time for a request says more.
"""


COUNTED = """\
nginx: lines of its access log. Reference server: its counter. Samba: the counters of smbd's processes (`smbstatus
--profile`), all SMB2 requests from the first client's connection to the last one's end, the making and removing of
workspaces included, each part of a compound once; and those of some names alone.
"""

FILES = """\
- Samba is private: its own network, users and counters, its files in memory (/dev/shm) where there is room, SMB1 let in
  for smbtorture's sake. smbd's processes share one CPU, the client's have the other.
- Every tool is measured between two moments: when its window opens, which is after all clients are connected and have
  their files, and when it closes. CPU time is read at both: of smbtorture's processes, one a client, by the kernel's
  schedstat; of ours by getrusage; of smbd's in ticks. smbclient has no window: its rate is the one that it prints, and
  from its CPU time that of a call without a transfer is taken off.
- Replay: the load file of Debian's `dbench`, the same for both. smbtorture (`bench.nbench`) speaks SMB1, has no cache
  and looks at no content; `dyno` speaks SMB 3.1.1 without a cache, makes what it writes incompressible, compares every
  byte that it reads and records every response time. `dyno, with leases` has a client's cache: fewer requests reach the
  server, so it has no target. An operation is a line of the load file: smbtorture says how many lines its clients
  have done in the mean, once a second. Its window opens when the mean is a quarter beyond the lines that make files.
- Streams: a load file of one file, opened, moved in pieces of 64 KiB, closed. With leases, write-behind and read-ahead
  make requests of any size out of it, several under way, as smbclient does; without, one piece is under way at a time.
- NFS: a private Ganesha instead. Ours moves a file as above, with close-to-open rules: UNSTABLE writes and a COMMIT at
  the close. nfs-cp copies a whole file of random bytes once a run, from a local file or to one in memory; from its CPU
  time that of copying one byte is taken off. Listings: ours reads names and attributes and keeps none, nfs-ls prints
  them to /dev/null. Random reads: 32 under way at once on one connection; libnfs by a program in C
  (`benches/random_reads.c`) drops what it read, and so does ours, which in a row of its own compares each block. Ours
  has each request leave at once (TCP_NODELAY, as Linux's client has it); libnfs does not ask for that, so that the
  kernel gathers its requests, and does so in a row of its own. Sessions are as below, on Ganesha.
- Sessions: one engine thread, one smbd process a session. Memory when all wait: ours is what the resident set grew by,
  smbd's the proportional set sizes of all its processes.
"""

OBJECTS = """\
- All tools ask one reference S3 server in memory, on which no access key is set: it verifies no signature, and takes
  unsigned requests. Each connection has one request at a time. Objects are put before the window.
- minio-go (version in `benches/minio_loop/go.mod`) is the Go library of MinIO's own load generator, here in a loop
  with one goroutine per connection and the runtime's defaults. Both clients sign the head of each request (Signature
  Version 4, unsigned payload) and send a CRC32 in a header of each PUT, computed each time. Neither retries. minio-go
  checks the length of a GET and drops its content. `dyno` also compares the ETag and every byte, records every response
  time, and puts new content each time.
- s5cmd is a whole command: 40 MiB of objects, at most 2,000 operations, from a file of commands. Its CPU time includes
  its start, its log and the file that it reads or the pipe that it writes; it signs, and sends no checksum.
- Cases over TLS have the same server with an ECDSA certificate, which no client verifies.
- `dyno, unchecked` compares no content of a GET, and sends no CRC32 with a PUT.
- `dyno, plain HTTP` gets or puts one object of the same server without a signature, a checksum or a ledger.
- Both clients print a line when their window opens and closes. The CPU time of the whole process is read at both; of
  the server, in ticks. Memory is what the resident set grew by from before the level to the opening of the window.
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
        "Wire: from the first segment that the client sent for a request (the first SYN, where it made a "
        "connection) to the last segment of the answer, by the kernel's own timestamps on loopback.",
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
