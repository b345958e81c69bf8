"""Streams of smbclient, which puts or gets one file several times in one call and prints the rates.

The CPU time of its start and log-on is subtracted. An empty call just before measures this time. Our own streams use a
load file: see `load_files.stream`.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

from benches.file_runs import FileStand
from benches.file_server import SHARE, inside
from benches.load_files import PIECE_BYTES
from benches.quiet import wait_until_quiet
from benches.rounds import BenchError, Run, measured, run_tool
from benches.tools import Account, Tool

NAME = "smbclient"
REMOTE = "stream"
TRANSFERS_PER_S = 2
# Matches "putting file a as \b (670444.8 kb/s) (average ...". Rates are in units of 1,024 bytes.
RATE = re.compile(r"(?:putting|getting) file .* \(([\d.]+) (?:kb/s|KiloBytes/sec)\) \(average")
KIB = 1024
MOST_S = 60.0


def transfer(stand: FileStand, way: str, local: Path) -> Run:
    """Transfer a file repeatedly for about the length of a run. Raises BenchError.

    `way` `write` puts `local`, and `read` gets it back to /dev/null.
    """
    effort = stand.effort
    count = max(1, math.ceil(effort.seconds * TRANSFERS_PER_S))
    put, get = f"put {local} {REMOTE}", f"get {REMOTE} /dev/null"
    run_tool(_smbclient(stand, put, 1, local), "", MOST_S, stand.places.generator)
    wait_until_quiet(effort.patience_s)
    _, idle_s = run_tool(_smbclient(stand, "exit", 0, local), "", MOST_S, stand.places.generator)
    tool = _smbclient(stand, "; ".join([put if way == "write" else get] * count), count, local)
    run = measured(stand.case, tool, stand.places, replace(effort, seconds=MOST_S), stand.server)
    return replace(
        run,
        generator_cpu_s=run.generator_cpu_s - idle_s,
        details={"bytes_in_window": run.requests * PIECE_BYTES},
    )


def _smbclient(stand: FileStand, commands: str, transfers: int, local: Path) -> Tool:
    way = inside(stand.server)
    command = [*way.before, NAME, *way.after, f"//127.0.0.1/{SHARE}", "-c", commands]

    def account(output: str) -> Account:
        return stream_account(output, transfers, local.stat().st_size)

    return Tool(NAME, NAME, lambda _url, _seconds: command, account, 1)


def stream_account(output: str, transfers: int, file_bytes: int) -> Account:
    """Return the account of a call, in pieces of 64 KiB. Raises BenchError unless every transfer was made.

    A call without transfers counts as one piece.
    """
    rates = [float(rate) * KIB for rate in RATE.findall(output)]
    if len(rates) != transfers or "NT_STATUS" in output:
        raise BenchError(f"{NAME} made {len(rates)} transfers of {transfers}:\n{output}")
    if not transfers:
        return Account(1, 1, 1.0, 0)
    pieces = transfers * file_bytes // PIECE_BYTES
    return Account(pieces, pieces, sum(file_bytes / rate for rate in rates), 0)
