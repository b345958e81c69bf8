"""A private Ganesha for tests, and independent tools that inspect it: libnfs's tools and tshark."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from benches.levels import files_level, nfs_target

from serverdyno import _native
from serverdyno.servers.ganesha import MOUNT_PORT, NFS_PORT, Ganesha, GaneshaSettings
from serverdyno.servers.registry import create
from serverdyno.servers.running import started
from support.file_server import PATIENCE_S, skip_unless_installed


@contextmanager
def ganesha(settings: Mapping[str, Any] | None = None) -> Iterator[Ganesha]:
    skip_unless_installed("ganesha.nfsd", "rpcbind")
    server = create("ganesha", settings or {}, documents=Path(os.devnull))
    assert isinstance(server, Ganesha)
    with started(server):
        yield server


class Resurrecting(Ganesha):
    """A Ganesha that is restarted, after an outage, whenever it has ended."""

    outage_s = 2.5

    def _script(self) -> str:
        text = super()._script()
        begin = text.index("exec ")
        again = text[begin:].removeprefix("exec ").rstrip()
        return f"{text[:begin]}while :; do {again} || sleep {self.outage_s}; done\n"

    def kill(self) -> None:
        """Kill the server, as a crash would."""
        for process in map(psutil.Process, self.pids()):
            if process.name() == "ganesha.nfsd":
                process.kill()


@contextmanager
def resurrecting(directory: Path, settings: GaneshaSettings | None = None) -> Iterator[Resurrecting]:
    """Yield a running Ganesha that restarts."""
    skip_unless_installed("ganesha.nfsd", "rpcbind")
    server = Resurrecting(settings or GaneshaSettings(), directory, Path(os.devnull))
    with started(server):
        yield server


def target(server: Ganesha, **section: Any) -> _native.Target:
    access = server.access()
    place = {
        "url": access.url,
        "shares": list(access.shares),
        "network_namespace": access.network_namespace,
    }
    return nfs_target(**(place | section))


def mixed(
    to: _native.Target,
    *,
    workspaces: _native.Workspaces | None = None,
    length_s: float = 0.5,
    **files: Any,
) -> dict[str, Any]:
    """Run one level of two clients to its end."""
    shape = {"clients": 2, "threads": 1, "length_s": length_s, "timeout_s": 20.0}
    load = files_level(to, {"workload": "diskmix"} | files, workspaces, **shape).start()
    assert load.wait(PATIENCE_S), "the level does not end"
    return load.result()


def inside(server: Ganesha, *command: str) -> list[str]:
    """Return a command that runs in the server's network."""
    skip_unless_installed(command[0])
    return ["nsenter", f"--net={server.access().network_namespace}", *command]


def libnfs(server: Ganesha, program: str, path: str, *arguments: str) -> bytes:
    """Return the output of a libnfs tool for a path below an export."""
    ports = f"nfsport={NFS_PORT}&mountport={MOUNT_PORT}"
    options = ports if server.settings.nfs_version == "3" else "version=4"
    url = f"nfs://127.0.0.1{path}?{options}"
    done = subprocess.run(
        inside(server, program, *arguments, url), capture_output=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def captured(server: Ganesha, file: Path) -> Iterator[None]:
    """Capture every packet of the server's network into `file`."""
    command = inside(server, "tshark", "-q", "-i", "lo", "-s", "512", "-w", str(file))
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as capture:
        try:
            assert capture.stderr is not None
            for line in capture.stderr:  # until the capture has begun or failed
                if "Capturing on" in line:
                    break
            yield
        finally:
            capture.send_signal(signal.SIGINT)
            capture.wait(PATIENCE_S)


def dissected(file: Path, chosen: str) -> list[str]:
    """Return a line for each packet of a capture that tshark selects."""
    skip_unless_installed("tshark")
    command = [
        "tshark",
        "-r",
        str(file),
        "-Y",
        chosen,
        "-T",
        "fields",
        "-e",
        "frame.number",
        "-e",
        "_ws.expert.message",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    return done.stdout.splitlines()
