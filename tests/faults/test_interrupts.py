"""An interrupt at any instruction ends the command as an interrupt, and its output stays intact."""

from __future__ import annotations

import io
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from rich.console import Console

from serverdyno import interrupts
from serverdyno.cli.progress import PlainLines, progress_for
from serverdyno.plan.model import Plan, ServerPlan, Suite
from serverdyno.run.ask import ask_users_servers
from serverdyno.run.create import create_experiment
from support.experiments import Listener

WAITS = ("concurrent/futures/", "/threading.py", "/run/ask.py", "/serverdyno/interrupts.py")


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt, even if the tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class InterruptedOnce(io.StringIO):
    """A terminal whose user types Ctrl-C as soon as a line is visible."""

    def __init__(self) -> None:
        super().__init__()
        self.typed = False

    def isatty(self) -> bool:
        return True

    def flush(self) -> None:
        if not self.typed and "first" in self.getvalue():
            self.typed = True
            signal.raise_signal(signal.SIGINT)


def test_a_line_that_an_interrupt_follows_at_once_is_written_once() -> None:
    terminal = InterruptedOnce()
    lines = PlainLines(Console(file=terminal, force_terminal=True))
    with pytest.raises(KeyboardInterrupt):
        lines.say("first")
    lines.say("second")
    assert terminal.getvalue().split() == ["first", "second"]


def test_a_line_above_a_live_one_is_written_once_too() -> None:
    terminal = InterruptedOnce()
    console = Console(file=terminal, force_terminal=True, _environ={"TERM": "xterm"})
    with pytest.raises(KeyboardInterrupt), progress_for(console) as progress:
        progress.notice("first")
    console.print("second")
    assert terminal.typed
    assert [terminal.getvalue().count(word) for word in ("first", "second")] == [1, 1]


def test_one_thread_alone_writes_to_the_terminal() -> None:
    # Two threads would erase each other's lines, because each assumes that its own line was written last.
    terminal = io.StringIO()
    console = Console(file=terminal, force_terminal=True, _environ={"TERM": "xterm"})
    before = threading.active_count()
    with progress_for(console) as progress:
        assert threading.active_count() == before
        progress.stage("preparing")
        assert "preparing" in terminal.getvalue()  # at once, because no other thread writes it


def test_a_signal_waits_for_the_end_of_what_must_not_be_cut_and_a_second_one_does_not() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), interrupts.held() as signals:
        assert not signals
        signal.raise_signal(signal.SIGINT)
        done.append("the rest")
        assert signals
    assert done == ["the rest"]
    with pytest.raises(KeyboardInterrupt), interrupts.held():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        done.append("never")
    assert done == ["the rest"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interrupts.held() as signals:
            signal.raise_signal(signal.SIGHUP)
            assert not signals
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def interrupted_at(line: int, act: Callable[[], object]) -> bool:
    """Interrupt `act` at this line of the waiting code; return whether the interrupt ended `act`."""
    passed = 0

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal passed
        if not any(part in frame.f_code.co_filename for part in WAITS):
            return None
        if event == "line":
            passed += 1
            if passed == line:
                signal.raise_signal(signal.SIGINT)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    assert passed < line, "the interrupt was swallowed"
    return False


def test_a_look_ends_as_an_interrupt_wherever_in_the_wait_the_signal_falls(tmp_path: Path) -> None:
    suite = Suite(name="tiny", title="Tiny", source="a test", workload="url", clients=[1], length_s=0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        plan = Plan(
            name="tiny",
            title="Tiny",
            suite="tiny",
            repetitions=1,
            servers=[ServerPlan(server="external", name="silent", url=url)],
        )
        with create_experiment(tmp_path / "e", "# made by a test\n", plan, [suite]) as experiment:
            head = experiment.head
        threads = set(threading.enumerate())
        for line in (*range(1, 60), *range(60, 600, 15)):
            ended = interrupted_at(line, lambda: ask_users_servers(head, head.configurations, Listener()))
            assert ended
            assert set(threading.enumerate()) <= threads, line
