"""smbclient as a stream: one file put or got several times in one call, at the rate that it prints.

Its start and log-on are taken off its CPU time: those of a call that does nothing else, made just before. Not for
ours, which streams by a load file: see `load_files.stream`.
"""

from __future__ import annotations

import math
import re
import time
from datetime import UTC, datetime
from pathlib import Path

from benches.file_runs import FileStand
from benches.file_server import SHARE, inside
from benches.load_files import PIECE_BYTES
from benches.quiet import foreign_share, time_wait_sockets, wait_until_quiet
from benches.rounds import BenchError, Run, run_tool
from benches.tools import Account, Tool
from serverdyno.probes.noise import machine_cpu

NAME = "smbclient"
REMOTE = "stream"
TRANSFERS_PER_S = 2
# "putting file a as \b (670444.8 kb/s) (average ...": of 1,024 bytes, both.
RATE = re.compile(r"(?:putting|getting) file .* \(([\d.]+) (?:kb/s|KiloBytes/sec)\) \(average")
KIB = 1024


def transfer(stand: FileStand, way: str, local: Path) -> Run:
    """`way`: `write` puts `local`, `read` gets it back to /dev/null, as often as fills the time. Raises BenchError."""
    effort, server = stand.effort, stand.server
    count = max(1, math.ceil(effort.seconds * TRANSFERS_PER_S))
    put, get = f"put {local} {REMOTE}", f"get {REMOTE} /dev/null"
    run_tool(_smbclient(stand, put, 1, local), "", MOST_S, stand.places.generator)
    quiet, waiting, started = wait_until_quiet(effort.patience_s), time_wait_sockets(), datetime.now(UTC)
    _, idle_s = run_tool(_smbclient(stand, "exit", 0, local), "", MOST_S, stand.places.generator)
    tool = _smbclient(stand, "; ".join([put if way == "write" else get] * count), count, local)
    own, before, machine = time.process_time(), server.cpu_s(), machine_cpu()
    account, process_s = run_tool(tool, "", MOST_S, stand.places.generator)
    after_machine, after = machine_cpu(), server.cpu_s()
    server_s = None if before is None or after is None else after - before
    others = foreign_share(machine, after_machine, process_s + (server_s or 0.0) + time.process_time() - own)
    return Run(
        case=stand.case,
        tool=NAME,
        round=0,
        attempt=0,
        kept=True,
        started_utc=f"{started:%Y-%m-%dT%H:%M:%S}Z",
        connections=1,
        requests=account.requests,
        requests_s=account.requests / account.window_s,
        errors=0,
        server_requests=None,
        generator_cpu_s=process_s - idle_s,
        server_cpu_s=server_s,
        measured_s=account.window_s,
        foreign_cpu_share=others,
        quiet_before=quiet,
        time_wait_before=waiting,
        details={"bytes_in_window": account.requests * PIECE_BYTES},
    )


MOST_S = 60.0


def _smbclient(stand: FileStand, commands: str, transfers: int, local: Path) -> Tool:
    way = inside(stand.server)
    command = [*way.before, NAME, *way.after, f"//127.0.0.1/{SHARE}", "-c", commands]

    def account(output: str) -> Account:
        return stream_account(output, transfers, local.stat().st_size)

    return Tool(NAME, NAME, lambda _url, _seconds: command, account, 1)


def stream_account(output: str, transfers: int, file_bytes: int) -> Account:
    """In pieces of 64 KiB. Raises BenchError unless every transfer was made; a call without any is one piece."""
    rates = [float(rate) * KIB for rate in RATE.findall(output)]
    if len(rates) != transfers or "NT_STATUS" in output:
        raise BenchError(f"{NAME} made {len(rates)} transfers of {transfers}:\n{output}")
    if not transfers:
        return Account(1, 1, 1.0, 0)
    pieces = transfers * file_bytes // PIECE_BYTES
    return Account(pieces, pieces, sum(file_bytes / rate for rate in rates), 0)
