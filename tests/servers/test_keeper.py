"""A server leaves nothing behind, whatever ends it or the tool; its figures include ended processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from serverdyno.servers import process as process_module
from serverdyno.servers.process import ServerProcess
from support.dyno_process import PATIENCE_S, ended, wait_until

BURNT_CPU_S = 0.3
TICK_S = 0.01

# Bodies of real server processes: each writes `ready` to its log once it is in the required state.
IDLE = "say('ready'); pause()"
FORKED = "fork() or pause(); say('ready'); pause()"
STUBBORN = "signal.signal(signal.SIGTERM, signal.SIG_IGN); fork() or pause(); say('ready'); pause()"
DAEMONISED = """
    if fork() == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        fork() or pause()
        os._exit(0)
    os.wait()
    say('ready')
    pause()
"""
PRELUDE = f"""
import os, signal, sys, time
from os import fork
def pause():
    while True: signal.pause()
def say(text): os.write(1, text.encode() + b"\\n")
def burn():
    while time.process_time() < {BURNT_CPU_S}: pass
"""


def server_command(body: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", PRELUDE + textwrap.dedent(body)]


def log_says(directory: Path, text: str) -> bool:
    log: str = (directory / "server.log").read_text()
    return text in log


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Return the processes that still run after a bounded wait; a zombie that waits for its reaper has ended."""
    return [each for each in psutil.wait_procs(processes, timeout=PATIENCE_S)[1] if not ended(each)]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    private = tmp_path / "serverdyno-test"
    private.mkdir()
    return private


@pytest.fixture
def start(directory: Path) -> Iterator[Callable[..., ServerProcess]]:
    started: list[ServerProcess] = []

    def start_body(body: str, cpus: tuple[int, ...] = (), *, remove_directory: bool = False) -> ServerProcess:
        server = ServerProcess.start(server_command(body), directory, cpus, remove_directory=remove_directory)
        started.append(server)
        wait_until(lambda: log_says(directory, "ready"), "the server is ready")
        return server

    yield start_body
    for server in started:
        server.stop()


def family(server: ServerProcess) -> list[psutil.Process]:
    return [psutil.Process(pid) for pid in (server.keeper.pid, *server.pids())]


@pytest.mark.parametrize(
    ("body", "processes"),
    [(IDLE, 1), (FORKED, 2), (STUBBORN, 2), (DAEMONISED, 2)],
    ids=["idle", "forked", "ignores SIGTERM", "daemonised child"],
)
def test_stop_ends_every_process(
    start: Callable[..., ServerProcess], body: str, processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_module, "GRACE_S", 0.3)
    server = start(body)
    wait_until(lambda: len(server.pids()) == processes, f"{processes} processes")
    everyone = family(server)
    server.stop()
    assert alive(everyone) == []
    server.stop()  # harmless


TOOL = """
import signal, sys
from pathlib import Path
from serverdyno.servers import process
process.GRACE_S = 0.3
server = process.ServerProcess.start({command!r}, Path({directory!r}), remove_directory=True)
print(server.keeper.pid, flush=True)
signal.pause()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("body", [STUBBORN, DAEMONISED], ids=["ignores SIGTERM", "daemonised child"])
def test_nothing_outlives_a_tool_that_is_ended_by_a_signal(
    directory: Path, body: str, number: signal.Signals
) -> None:
    program = TOOL.format(command=server_command(body), directory=str(directory))
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as tool:
        assert tool.stdout is not None
        keeper = psutil.Process(int(tool.stdout.readline()))
        wait_until(lambda: log_says(directory, "ready"), "the server is ready")
        everyone = [keeper, *keeper.children(recursive=True)]
        assert len(everyone) == 3
        tool.send_signal(number)
    assert alive(everyone) == []
    assert not directory.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_keeper_ends_the_server_and_then_the_keeper(
    start: Callable[..., ServerProcess], number: signal.Signals
) -> None:
    server = start(FORKED)
    everyone = family(server)
    server.keeper.send_signal(number)
    assert alive(everyone) == []


def test_a_keeper_that_is_killed_takes_the_first_process_along_and_stop_ends_the_rest(
    start: Callable[..., ServerProcess],
) -> None:
    server = start("log = open('own.log', 'w'); fork() or pause(); say('ready'); pause()")
    keeper, first, child = family(server)
    keeper.kill()
    wait_until(lambda: ended(first), "SIGTERM by the kernel to the first process")
    assert not server.running()
    assert server.cpu_s() is None
    server.stop()
    assert alive([keeper, first, child]) == []


def test_cpu_time_of_ended_children_is_kept(start: Callable[..., ServerProcess]) -> None:
    server = start("fork() or (burn(), os._exit(0)); os.wait(); say('ready'); pause()")
    assert (server.cpu_s() or 0) >= BURNT_CPU_S - 2 * TICK_S


def test_cpu_time_of_a_daemon_that_ended_is_kept(start: Callable[..., ServerProcess]) -> None:
    server = start("""
        if fork() == 0:
            os.setsid()
            fork() or (burn(), say('ready'), os._exit(0))
            os._exit(0)
        os.wait()
        pause()
    """)
    wait_until(lambda: len(server.pids()) == 1, "the daemon has ended")
    assert (server.cpu_s() or 0) >= BURNT_CPU_S - 2 * TICK_S


def test_cpu_time_grows_and_never_falls_while_children_come_and_go(
    start: Callable[..., ServerProcess], directory: Path
) -> None:
    server = start("""
        say('ready')
        for _ in range(100):
            if fork() == 0:
                while time.process_time() < 0.03: pass
                os._exit(0)
            os.wait()
        say('done')
        pause()
    """)
    readings: list[float] = []
    while not log_says(directory, "done"):
        reading = server.cpu_s()
        if reading is not None:
            readings.append(reading)
    assert readings == sorted(readings)
    assert readings[0] < readings[-1]
    assert (server.cpu_s() or 0) >= 100 * (0.03 - 2 * TICK_S)


def test_memory_covers_every_process(start: Callable[..., ServerProcess]) -> None:
    server = start("""
        if fork() == 0:
            block = bytearray(os.urandom(1 << 20)) * 32
            say('ready')
            pause()
        pause()
    """)
    assert (server.rss_bytes() or 0) >= 32 << 20


def test_a_server_that_ends_by_itself_is_reported_with_its_status_and_its_last_words(
    directory: Path,
) -> None:
    server = ServerProcess.start(
        server_command("say('no such module'); sys.exit(3)"), directory, remove_directory=True
    )
    try:
        wait_until(lambda: not server.running(), "the end of the server")
        assert "exit status 3" in server.failure()
        assert "no such module" in server.failure()
        assert server.cpu_s() is not None
    finally:
        server.stop()
    assert not directory.exists()


def test_what_a_crashed_server_leaves_is_ended_before_anybody_asks(directory: Path) -> None:
    server = ServerProcess.start(server_command("fork() or pause(); say('ready'); signal.pause()"), directory)
    try:
        wait_until(lambda: log_says(directory, "ready"), "the server is ready")
        first, child = family(server)[1:]
        first.kill()
        assert alive([first, child]) == []
        assert "signal 9" in server.failure()
    finally:
        server.stop()


def test_a_daemon_whose_first_process_has_gone_is_a_server_that_ended(directory: Path) -> None:
    server = ServerProcess.start(server_command(DAEMONISED.removesuffix("    pause()\n")), directory)
    try:
        wait_until(lambda: not server.running(), "the end of the server")
        wait_until(lambda: not server.pids(), "the end of the daemon")
        assert "exit status 0" in server.failure()
    finally:
        server.stop()


def test_a_program_that_cannot_be_run_is_named(directory: Path) -> None:
    server = ServerProcess.start(["/nonexistent/httpd"], directory)
    try:
        wait_until(lambda: not server.running(), "the end of the server")
        assert "cannot run /nonexistent/httpd" in server.failure()
    finally:
        server.stop()


def test_the_server_gets_its_cpus_all_the_open_files_allowed_and_nothing_else_of_ours(
    start: Callable[..., ServerProcess], directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVERDYNO_SECRET", "for the tool alone")
    cpu = max(os.sched_getaffinity(0))
    start(
        """
        import resource
        say(f'cpus {sorted(os.sched_getaffinity(0))}')
        say(f'limits {resource.getrlimit(resource.RLIMIT_NOFILE)}')
        say(f'files {sorted(os.listdir("/proc/self/fd"))[:-1]}')
        say(f'environment {sorted(os.environ)}')
        say('ready')
        pause()
        """,
        (cpu,),
    )
    log = (directory / "server.log").read_text()
    hard = psutil.Process().rlimit(psutil.RLIMIT_NOFILE)[1]
    assert f"cpus [{cpu}]" in log
    assert f"limits ({hard}, {hard})" in log
    assert "files ['0', '1', '2']" in log
    assert "'PATH'" in log and "SERVERDYNO_SECRET" not in log


def test_a_directory_that_is_not_one_of_ours_is_never_removed(tmp_path: Path) -> None:
    server = ServerProcess.start(server_command(IDLE), tmp_path, remove_directory=True)
    wait_until(lambda: log_says(tmp_path, "ready"), "the server is ready")
    server.stop()
    assert (tmp_path / "server.log").exists()
