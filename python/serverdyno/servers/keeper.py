"""The process between the tool and one server, which ensures that no process or file of the server outlives the tool.

It runs as `python -I -S keeper.py DIRECTORY` in its own session. It uses only the standard library, so that it starts
at once, and imports `host_changes.py` only if a server needs host changes. The tool holds the other end of standard
input. The first line of input is the spec. It has secrets, so it is not on the command line, which every user can read.
When the tool ends, even by kill -9, standard input is closed, which is the order to stop. A line `restart SECONDS` is
the order to kill the server and to start it again after this time. As "child subreaper" (prctl(2)), the keeper inherits
every process that the server leaves behind. So no process of the server is left once the keeper has no children.

Events go to standard output, one JSON object per line: `refused` (its host changes are not possible), `started`,
`exited` (the server ended by itself), `killed` (it will be started again), `stopped`. Standard error is the server's
log.

If the keeper itself is killed with SIGKILL, the server gets SIGTERM (PR_SET_PDEATHSIG). The kernel clears this
setting if the server changes its user; `process.py` then ends the server, as long as the tool runs.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import sys
import time
from typing import TYPE_CHECKING, NoReturn, TypedDict

if TYPE_CHECKING:
    import socket

    from serverdyno.servers.host_changes import AppliedHostChanges, HostChanges

PR_SET_PDEATHSIG = 1  # linux/prctl.h
PR_SET_CHILD_SUBREAPER = 36
KILL_WAIT_S = 10.0
CANNOT_EXECUTE = 127


class Spec(TypedDict):
    """The instructions from `process.py`.

    `remove`: whether the private directory is removed at the end. `host_changes` is None if there are none.
    """

    command: list[str]
    environment: dict[str, str]
    cpus: list[int]
    grace_s: float
    remove: bool
    host_changes: HostChanges | None


def report(event: str, **facts: object) -> None:
    """Send an event, if the tool is still running."""
    with contextlib.suppress(BrokenPipeError):
        os.write(sys.stdout.fileno(), json.dumps({"event": event, **facts}).encode() + b"\n")


def prctl(option: int, argument: int) -> None:
    """Call prctl(2). Raises OSError."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(option, ctypes.c_ulong(argument), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def read_spec() -> Spec | None:
    """Return the spec; None if the tool has ended. The tool sends nothing more before `started`."""
    line = b""
    while not line.endswith(b"\n"):
        read = os.read(sys.stdin.fileno(), 65536)
        if not read:
            return None
        line += read
    spec: Spec = json.loads(line)
    return spec


def become_server(spec: Spec, directory: str, keeper_pid: int, channel: socket.socket | None) -> NoReturn:
    """Turn the new child into the server. A failure is logged and ends the child.

    `channel` is the socket to the keeper, for a server with delayed fsync.
    """
    try:
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != keeper_pid:
            os._exit(CANNOT_EXECUTE)
        # Python ignores these two signals, and an ignored signal stays ignored across exec: restore the
        # defaults.
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        os.chdir(directory)
        if channel is not None:
            from serverdyno.servers import sync_delay  # noqa: PLC0415 (few servers need it)

            sync_delay.install(channel)
        elif spec["host_changes"] and spec["host_changes"].get("skip_syncs"):
            from serverdyno.servers import sync_delay  # noqa: PLC0415 (as above)

            sync_delay.skip()
        os.execve(spec["command"][0], spec["command"], spec["environment"])
    except OSError as error:
        os.write(2, f"cannot run {spec['command'][0]}: {error}\n".encode())
    os._exit(CANNOT_EXECUTE)


def children() -> list[int]:
    """Return the IDs of direct children, zombies included. Only the keeper reaps them, so no ID is reused."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 (pathlib is slow to import)
        try:
            with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 (as above)
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid():
            found.append(int(name))
    return found


class Keeper:
    """One server from its start until its last process has ended."""

    def __init__(self, directory: str, spec: Spec) -> None:
        self.directory, self.spec = directory, spec
        self.stop_asked = False
        self.server_pid = 0
        self.server_status: int | None = None
        self.restart_after_s: float | None = None
        self.orders = b""
        self.arranged: AppliedHostChanges | None = None
        self.wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self.ask_stop)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)

    def ask_stop(self, _number: int, _frame: object) -> None:
        self.stop_asked = True

    def apply(self) -> bool:
        """Apply the host changes. If they are not possible, report `refused` and return False."""
        if self.spec["host_changes"] is None:
            return True
        # The package's modules come after the standard library, so that they can't hide any of its modules.
        sys.path.append(os.path.abspath(f"{__file__}/../../.."))  # noqa: PTH100 (pathlib is slow to import)
        from serverdyno.servers import host_changes  # noqa: PLC0415 (few servers need it)

        self.arranged = host_changes.AppliedHostChanges()
        try:
            self.arranged.apply(self.spec["host_changes"])
        except host_changes.Refused as refused:
            report("refused", reason=str(refused), hint=refused.hint)
            return False
        return True

    def start(self) -> None:
        """Start the server on its CPUs with as many open files as the system allows."""
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        if self.spec["cpus"]:
            os.sched_setaffinity(0, self.spec["cpus"])
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        delay_s = self.spec["host_changes"]["sync_delay_s"] if self.spec["host_changes"] else 0
        here, there = self.channel() if delay_s else (None, None)
        keeper_pid = os.getpid()
        self.server_pid = os.fork()
        if self.server_pid == 0:
            become_server(self.spec, self.directory, keeper_pid, there)
        if here is not None and there is not None:
            there.close()
            self.delay_sync(here, delay_s)
        report("started", pid=self.server_pid)

    @staticmethod
    def channel() -> tuple[socket.socket, socket.socket]:
        import socket  # noqa: PLC0415 (slow to import, and few servers need it)

        return socket.socketpair()

    @staticmethod
    def delay_sync(server: socket.socket, delay_s: float) -> None:
        from serverdyno.servers import sync_delay  # noqa: PLC0415 (few servers need it)

        with server:
            sync_delay.let_go_later(server, delay_s)

    def put_back(self) -> None:
        """Undo the host changes, and remove the server's directories."""
        if self.arranged is not None:
            self.arranged.undo()
        if self.spec["remove"]:
            remove_directory(self.directory)
            for directory in self.spec["host_changes"]["remove"] if self.spec["host_changes"] else ():
                remove_directory(directory)

    def wait(self, seconds: float | None) -> None:
        """Sleep until a signal, an order, the end of the tool, or the time limit, if any; then reap."""
        watched = [self.wake_read] if self.stop_asked else [self.wake_read, sys.stdin.fileno()]
        ready, _, _ = select.select(watched, [], [], seconds)
        if self.wake_read in ready:
            os.read(self.wake_read, 4096)
        if sys.stdin.fileno() in ready:
            self.take_orders(os.read(sys.stdin.fileno(), 4096))
        self.reap()

    def take_orders(self, data: bytes) -> None:
        """Handle input from the tool. Empty input is the order to stop."""
        self.stop_asked = self.stop_asked or not data
        *lines, self.orders = (self.orders + data).split(b"\n")
        for line in lines:
            order, _, seconds = line.partition(b" ")
            if order == b"restart":
                self.restart_after_s = float(seconds)

    def reap(self) -> bool:
        """Reap the children that have ended. Return False if no child is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.server_pid:
                self.server_status = os.waitstatus_to_exitcode(status)

    def watch(self) -> None:
        """Wait until the server has ended or has to be stopped. If ordered, restart it in the meantime."""
        while not self.stop_asked and self.server_status is None:
            self.wait(None)
            if self.restart_after_s is not None:
                self.restart(self.restart_after_s)
        if self.server_status is not None:
            report("exited", status=self.server_status)

    def restart(self, after_s: float) -> None:
        """Kill every process of the server with SIGKILL, and start the server again `after_s` later."""
        self.restart_after_s = None
        report("killed", at_ns=time.monotonic_ns())
        os.kill(self.server_pid, signal.SIGKILL)
        self.kill_all()
        deadline = time.monotonic() + after_s
        while not self.stop_asked and (left_s := deadline - time.monotonic()) > 0:
            self.wait(left_s)
        if not self.stop_asked:
            self.server_status = None
            self.start()

    def kill_all(self) -> bool:
        """Kill the remaining processes of the server. Return True if none is left."""
        deadline = time.monotonic() + KILL_WAIT_S
        while self.reap():
            # The keeper inherits the children of a killed child, so the next round kills them.
            for pid in children():
                os.kill(pid, signal.SIGKILL)
            if time.monotonic() > deadline:
                return False
            self.wait(0.05)
        return True

    def wait_for_order(self) -> None:
        """Wait until the tool has read the log and CPU times of a server that ended by itself."""
        while not self.stop_asked:
            self.wait(None)

    def end(self) -> bool:
        """Send SIGTERM, wait, then kill the remaining processes. Return True if none is left."""
        if self.server_status is None:
            os.kill(self.server_pid, signal.SIGTERM)
        deadline = time.monotonic() + self.spec["grace_s"]
        while self.server_status is None and (left_s := deadline - time.monotonic()) > 0:
            self.wait(left_s)
        return self.kill_all()


def remove_directory(directory: str) -> None:
    """Remove a directory whose name shows that dyno created it."""
    import shutil  # noqa: PLC0415 (not needed before the end, and slow to import)

    if os.path.basename(directory).startswith("serverdyno-"):  # noqa: PTH119 (as above)
        shutil.rmtree(directory, ignore_errors=True)


def main() -> int:
    """Run the keeper. Return exit status 0 if the server was started and none of its processes is left."""
    spec = read_spec()
    if spec is None:
        return 1
    keeper = Keeper(sys.argv[1], spec)
    try:
        if not keeper.apply():
            return 1
        keeper.start()
        keeper.watch()
        clean = keeper.end()
        keeper.wait_for_order()
    except OSError as error:
        # The private directory is removed with the log before the tool can read it.
        reason = f"{spec['command'][0]} could not start, because the server's keeper failed: {error}"
        report("refused", reason=reason, hint="Check that this machine has the CPUs given in the plan.")
        return 1
    finally:
        keeper.put_back()
    report("stopped", clean=clean)
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
