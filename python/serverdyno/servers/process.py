"""Start one server's processes through the keeper, measure them and end them.

The keeper (`keeper.py`) is the parent of everything that the server starts, so "the processes of the server" are
exactly the keeper's descendants. The drivers contain the differences between servers.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil

from serverdyno.errors import ServerError
from serverdyno.probes import processes
from serverdyno.probes.processes import descendants
from serverdyno.servers import write_back
from serverdyno.servers.host_changes import HostChanges
from serverdyno.servers.proof import LOOPBACK, Listener, listeners
from serverdyno.units import MS_PER_S

KEEPER = Path(__file__).with_name("keeper.py")
GRACE_S = 5.0  # time between SIGTERM and SIGKILL
KEEPER_ANSWER_S = 30.0  # long enough for a loaded machine and the keeper's KILL_WAIT_S
STEADY_ATTEMPTS = 20
STAT_FLAGS = 6  # proc(5): field 9 of /proc/PID/stat, counted after the name
PF_EXITING = 0x4  # linux/sched.h
LOG_NAME = "server.log"
INHERITED = ("PATH", "HOME", "TMPDIR", "TZ", "LD_LIBRARY_PATH")


class ServerProcess:
    """A server that runs in the foreground under a keeper. Each object starts and stops its server once."""

    def __init__(self, keeper: subprocess.Popen[bytes], directory: Path) -> None:
        self.keeper = keeper
        self.directory = directory
        self._unread = b""
        self._server_pid: int | None = None
        self._status: int | None = None
        self._killed_ns = 0
        self._highest_cpu_s = 0.0
        self._clean = False
        self._keeper_ended = False
        self._refusal: ServerError | None = None
        self._surroundings: HostChanges | None = None
        self._host = LOOPBACK

    @classmethod
    def start(  # noqa: PLR0913 (what a process is given)
        cls,
        command: Sequence[str],
        directory: Path,
        cpus: Sequence[int] = (),
        environment: Mapping[str, str] | None = None,
        *,
        remove_directory: bool = False,
        host_changes: HostChanges | None = None,
        host: str = LOOPBACK,
    ) -> ServerProcess:
        """Start a server under a keeper; return once its first process exists.

        `command[0]` is an absolute path. The command runs in `directory`, and its output goes to `server.log`. If
        `cpus` is empty, all CPUs are used. `environment` is added to the few inherited variables. `remove_directory`:
        the keeper removes `directory` at the end, even if this process is killed. The keeper applies `host_changes`
        while the server runs. `host` is the listening address. Raises ServerError.
        """
        inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
        spec = {
            "command": list(command),
            "environment": {"LC_ALL": "C.UTF-8"} | inherited | dict(environment or {}),
            "cpus": list(cpus),
            "grace_s": GRACE_S,
            "remove": remove_directory,
            "host_changes": host_changes,
        }
        with (directory / LOG_NAME).open("ab") as log:
            keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", str(KEEPER), str(directory)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd="/",
                start_new_session=True,
            )
        assert keeper.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the keeper's events, or its end, are read below
            keeper.stdin.write(json.dumps(spec).encode() + b"\n")
            keeper.stdin.flush()
        process = cls(keeper, directory)
        process._surroundings, process._host = host_changes, host
        process._read_events(KEEPER_ANSWER_S, lambda: process._server_pid is not None)
        if process._server_pid is None:
            text = process.failure()
            process.stop()
            raise process._refusal or ServerError(f"{command[0]} could not be started.\n{text}")
        return process

    def _read_events(self, timeout_s: float, is_enough: Callable[[], bool] = lambda: False) -> None:
        """Read the keeper's events until `is_enough`, the end of the keeper, or the time limit."""
        assert self.keeper.stdout is not None
        if self.keeper.stdout.closed:
            return
        watch = select.poll()  # select(2) does not support descriptors from 1024 on; the load has many
        watch.register(self.keeper.stdout, select.POLLIN)
        deadline = time.monotonic() + timeout_s
        while watch.poll(max(0.0, deadline - time.monotonic()) * MS_PER_S):
            data = os.read(self.keeper.stdout.fileno(), 65536)
            *lines, self._unread = (self._unread + data).split(b"\n")
            for line in lines:
                self._take(json.loads(line))
            self._keeper_ended = not data
            if self._keeper_ended or is_enough():
                return

    def _take(self, event: dict[str, object]) -> None:
        match event:
            case {"event": "started", "pid": int(pid)}:
                self._server_pid = pid
            case {"event": "killed", "at_ns": int(at_ns)}:
                self._killed_ns, self._server_pid = at_ns, None
            case {"event": "exited", "status": int(status)}:
                self._status = status
            case {"event": "refused", "reason": str(reason), "hint": str(hint)}:
                self._refusal = ServerError(reason, hint=hint)
            case {"event": "stopped", "clean": bool(clean)}:
                self._clean = clean

    def running(self) -> bool:
        """Return whether the server's first process and its keeper run, or the server is being restarted.

        A process closes its sockets before its parent is notified of its end, so clients may notice the end first. In
        that case, this waits for the keeper's report.
        """
        seen = self._server_pid
        is_ending = seen is not None and _is_ending(seen)

        def is_told() -> bool:
            return self._status is not None or self._server_pid != seen

        self._read_events(0)
        if is_ending and not is_told():
            self._read_events(KEEPER_ANSWER_S, is_told)
        return self._status is None and not self._keeper_ended

    def restart(self, away_s: float) -> None:
        """Kill every process of the server and start it again after `away_s`; return at once.

        The server keeps its directory and its host changes.
        """
        assert self.keeper.stdin is not None
        self.keeper.stdin.write(f"restart {away_s}\n".encode())
        self.keeper.stdin.flush()

    def signal(self, number: int) -> None:
        """Send a signal to the server's first process, unless it has ended."""
        if self.running() and self._server_pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._server_pid, number)

    @property
    def killed_ns(self) -> int:
        """Return when the server was last killed for a restart, in monotonic nanoseconds; 0 if never."""
        self._read_events(0)
        return self._killed_ns

    def pids(self) -> list[int]:
        """Return the IDs of all current server processes, without the keeper; empty once the keeper has ended."""
        return descendants([self.keeper.pid])

    def cpu_s(self) -> float | None:
        """Return the CPU seconds (user + system) of all processes so far; None once the keeper has ended.

        See `processes.cpu_s`. The keeper inherits the processes that the server leaves behind. The kernel charges
        network processing in interrupts to the interrupted process. The sum loses up to a clock tick when a process
        ends, so the highest sum is returned.
        """
        used_s = processes.steady(self._used_s, STEADY_ATTEMPTS)
        if used_s is None:
            return None
        self._highest_cpu_s = max(self._highest_cpu_s, used_s)
        self._read_events(0)
        return None if self._keeper_ended else self._highest_cpu_s

    def _used_s(self) -> float:
        living = self.pids()
        return processes.cpu_s([self.keeper.pid, *living], living)

    def rss_bytes(self) -> int | None:
        """Return the memory of all current processes (`processes.memory_bytes`); None if no process is left."""
        return processes.steady(lambda: processes.memory_bytes(self.pids()), STEADY_ATTEMPTS) or None

    def strangers(self, found: Sequence[Listener]) -> list[Listener]:
        """Return the listeners of a port that may belong to another program.

        Root without CAP_SYS_PTRACE, as in many containers, can't see the sockets of another user's process. A socket
        without a known owner is accepted if it is the only one: then only its owner can answer, and the secret in the
        answer identifies the owner (see `proof.py`).
        """
        if [listener.pid for listener in found] == [None]:
            return []
        own = set(self.pids())
        others = [listener for listener in found if listener.pid not in own]
        return [each for each in others if each.pid is None or psutil.pid_exists(each.pid)]

    def listeners(self, port: int) -> list[Listener]:
        """Return every socket that accepts connections to `port` of the server's address."""
        return listeners(port, self.keeper.pid if self.network_namespace else None, self._host)

    @property
    def network_namespace(self) -> str | None:
        """Return the file of the server's own network namespace; None if it has none."""
        own = self._surroundings is not None and self._surroundings["own_network"]
        return f"/proc/{self.keeper.pid}/ns/net" if own else None

    def seen_from_here(self, path: Path) -> Path:
        """Return the path at which this process sees a path of the server, even in another mount namespace."""
        own = self._surroundings is not None and self._surroundings["mount"] is not None
        return Path(f"/proc/{self.keeper.pid}/root{path}") if own else path

    def failure(self, *logs: Path, lines: int = 20) -> str:
        """Return why the server is not running, with the last lines of its output and of `logs`."""
        told = [self._reason()]
        for log in (self.directory / LOG_NAME, *logs):
            if log.is_file() and (text := log.read_text(errors="replace").strip()):
                told += [f"{log.name}:", *(f"  {line}" for line in text.splitlines()[-lines:])]
        return "\n".join(told)

    def _reason(self) -> str:
        if self.running():
            return "The server is running."
        if self._status is not None:
            end = f"with exit status {self._status}" if self._status >= 0 else f"by signal {-self._status}"
            return f"The server ended {end}."
        return "The server's keeper has ended."

    def stop(self) -> None:
        """End every process of the server. May be called repeatedly. Raises ServerError if one can't be ended."""
        assert self.keeper.stdin is not None and self.keeper.stdout is not None
        if self.keeper.stdout.closed:
            return
        with contextlib.suppress(BrokenPipeError):  # the keeper ended before it read all input
            self.keeper.stdin.close()
        self._read_events(KEEPER_ANSWER_S)
        strays = [] if self._clean else self._strays()
        self.keeper.kill()
        self.keeper.wait()
        self.keeper.stdout.close()
        self._keeper_ended = True
        # psutil compares start times, so a process that reuses the ID is not signalled.
        if not self._clean and self._surroundings is not None:
            with contextlib.suppress(OSError):  # a keeper killed with SIGKILL has not restored the limits
                write_back.restore_abandoned()
        for process in strays:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        alive = psutil.wait_procs(strays, timeout=GRACE_S)[1]
        if alive:
            pids = ", ".join(str(process.pid) for process in alive)
            raise ServerError(f"can't stop processes of a server: {pids}", hint=f"To see them: ps -p {pids}")

    def _strays(self) -> list[psutil.Process]:
        """Return the server's processes that the keeper has not ended.

        If the keeper was killed with SIGKILL, they are found by their session and by the log that they have open.
        Call this before the keeper is reaped, so that its process ID is not reused.
        """
        own, sessions = set(self.pids()), {self.keeper.pid, self._server_pid}
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(ProcessLookupError, PermissionError, psutil.Error):
                left = os.getsid(process.pid) in sessions and process.pid != self.keeper.pid
                if process.pid in own or (
                    left
                    and any(Path(file.path).is_relative_to(self.directory) for file in process.open_files())
                ):
                    found.append(process)
        return found


def _is_ending(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return True
    return bool(int(stat.rpartition(b")")[2].split()[STAT_FLAGS]) & PF_EXITING)
