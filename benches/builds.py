"""Compare two builds of Serverdyno: the effect of a change on the generator's CPU time per operation.

The other build is another checkout with its own native module: `git worktree add ../before COMMIT`, `make -C ../before
setup`, then `python -m benches --against ../before`. Both load the same server: this checkout's reference server,
nginx, Samba or Ganesha.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from benches import bonnie, files, http2, load_files, nfs, speed, tls
from benches.file_runs import FileStand, measure
from benches.file_tools import FileTool
from benches.file_tools import dyno as file_dyno
from benches.files import FileCase
from benches.ratios import Bound
from benches.rounds import Run
from benches.speed import Case, Goal
from benches.tools import Tool, dyno

OF_SPEED = (
    "reference-keep-alive",
    "reference-close",
    "nginx-sendfile-off-keep-alive",
    "nginx-sendfile-off-close",
)
OF_TLS_AND_HTTP2 = ("tls-full-handshakes", "tls-keep-alive", "http2-tls", "http2-clear")
OURS, BEFORE = "dyno", "dyno, other build"
LIMIT = Bound(1.05, at_least=False)
AnyTool = TypeVar("AnyTool", Tool, FileTool)


def elsewhere(checkout: Path) -> list[str]:
    """Return a prefix that makes a command run in another checkout."""
    return ["env", f"--chdir={checkout}", f"PYTHONPATH={checkout / 'python'}"]


def of_other(checkout: Path, tool: AnyTool) -> AnyTool:
    """Return the same tool of the other checkout."""
    command: Callable[..., list[str]] = tool.command
    found = replace(tool, name=BEFORE, command=lambda *of: [*elsewhere(checkout), *command(*of)])
    if isinstance(found, Tool) and (of_server := found.of_server) is not None:
        return replace(found, of_server=lambda server: of_other(checkout, of_server(server)))
    return found


def build_cases(checkout: Path) -> Iterator[Case]:
    """Yield the benchmarks of web servers, with a row per build instead of a row per peer."""
    for case in [*speed.cases(), *tls.cases(), *http2.cases()]:
        if case.name not in OF_SPEED + OF_TLS_AND_HTTP2:
            continue
        ours = case.tools[0]
        if case.name in OF_SPEED:
            ours = dyno(keep_alive=case.name.endswith("keep-alive"))
        yield replace(
            case,
            name=f"builds-{case.name}",
            tools=(ours, of_other(checkout.resolve(), ours)),
            goals=(Goal(ours.name, (BEFORE,), "generator CPU, us/request", LIMIT),),
        )


def file_cases(checkout: Path, folder: Path, stream_bytes: int = files.STREAM_BYTES) -> list[FileCase]:
    """Return benchmarks of streams over SMB and NFS, if the servers are installed. Load files go into `folder`."""
    found: list[FileCase] = []
    for kind, protocol, absent in (
        (FileCase, "smb", files.missing(files.Sizes())),
        (nfs.NfsCase, "nfs", nfs.missing()),
    ):
        for way in load_files.STREAM_WAYS if not absent else ():
            path = folder / f"{way}.load"
            ours = file_dyno(OURS, path, "leases")
            tools = {OURS: ours, BEFORE: of_other(checkout.resolve(), ours)}
            found.append(
                kind(
                    f"builds-{protocol}-{way}",
                    f"One client, {way}s of a file of {stream_bytes >> 20} MiB over {protocol.upper()}",
                    files.STREAM_FIGURES,
                    {name: partial(_streamed, tool, path, way, stream_bytes) for name, tool in tools.items()},
                    (Goal(OURS, (BEFORE,), "client CPU, us/64 KiB", LIMIT),),
                )
            )
    return found


def _streamed(tool: FileTool, path: Path, way: str, stream_bytes: int, stand: FileStand) -> list[Run]:
    load_files.stream(path, way, stream_bytes)
    return [files.in_pieces(run) for run in measure(stand, tool)]


BONNIE = [
    bonnie.BonnieCase(
        phase, "builds-bonnie", Goal(bonnie.UNCHECKED, (BEFORE,), "generator CPU, us/chunk", LIMIT)
    )
    for phase in bonnie.MESSAGES
]


def bonnies(checkout: Path) -> bonnie.ProgramsIn:
    """Return a function that returns both builds' Bonnie, without the check of the data read."""
    before = elsewhere(checkout.resolve())
    offered = subprocess.run([*before, *bonnie.BONNIE, "--help"], capture_output=True, text=True, check=True)
    always_unchecked = "--no-check" not in offered.stdout  # an older build has no check

    def programs(folder: Path, size_mib: int) -> list[bonnie.Program]:
        here = bonnie.ours(folder, size_mib, check=False)
        there = bonnie.ours(folder, size_mib, check=always_unchecked, name=BEFORE, before=before)
        return [here, there]

    return programs
