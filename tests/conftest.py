"""What several test modules share."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from dyno_process import Home, new_home

# Test modules, by the beginning of their names. Those of file servers share the machine's mounts, limits and counters
# of system calls; those without a server share nothing. Those of web servers share the machine's time: long experiments
# make a second group of them, of about the same length.
OF_FILE_SERVERS = (
    "test_abandoned",
    "test_ask",
    "test_benches_files",
    "test_bonnie",
    "test_calibrate",
    "test_durability",
    "test_external_smb",
    "test_files",
    "test_generator_processes",
    "test_negotiated",
    "test_nfs",
    "test_powercut",
    "test_reference_nfs",
    "test_reference_smb",
    "test_room",
    "test_samba",
    "test_scenario",
    "test_tasks",
    "test_testbed",
    "test_users_workspaces",
)
LONG_EXPERIMENTS = (
    "test_capacity",
    "test_fleet",
    "test_http2",
    "test_live",
    "test_load_places",
    "test_open_load",
    "test_runner",
    "test_sessions",
    "test_store",
    "test_suite",
    "test_until",
)
WITHOUT_SERVER = ("test_analysis_", "test_audit", "test_published", "test_report_")


class SharersInTurn(LoadScopeScheduling):  # type: ignore[misc]  # pytest-xdist has no types
    """Tests that share something of the machine run one after the other, in one worker."""

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.partition("::")[0].rpartition("/")[2]
        if module.startswith(OF_FILE_SERVERS):
            return "file servers"
        if module.startswith(LONG_EXPERIMENTS):
            return "long experiments"
        return nodeid if module.startswith(WITHOUT_SERVER) else "web servers"


@pytest.hookimpl(tryfirst=True)  # before pytest chooses one
def pytest_configure(config: pytest.Config) -> None:
    """A place for temporary files, and signals as they are where nobody ignores them."""
    _own_place(config)
    _hear_signals()


def _own_place(config: pytest.Config) -> None:
    """Below a directory of this run alone: pytest takes the right to enter the usual one from other users each time
    it starts, and the servers under test are other users.
    """
    if config.option.basetemp is None:  # given to workers, and by whoever wants to look at it afterwards
        place = Path(tempfile.mkdtemp(prefix="dyno-tests-"))
        config.option.basetemp = place / "t"
        config.add_cleanup(lambda: shutil.rmtree(place, ignore_errors=True))


def _hear_signals() -> None:
    """Take back what `nohup` and a shell's `&` make all processes of the tests ignore: they send each other signals.

    A handler is not inherited by programs that are started, an ignored signal is. This process stays as deaf as it was.
    """
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


@pytest.hookimpl(optionalhook=True)  # absent under `-p no:xdist`
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> SharersInTurn:
    """For `make test-python`, which has three workers."""
    return SharersInTurn(config, log)


@pytest.fixture(scope="session")
def home() -> Iterator[Home]:
    """Where `dyno` runs as a process of its own."""
    with new_home() as made:
        yield made


@pytest.fixture
def own_tmpdir(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where everything temporary of the test lies, and nobody else's. A short path: sockets lie below it."""
    tmp_path_factory.getbasetemp()  # made where it always is
    with tempfile.TemporaryDirectory(prefix="s-") as name:
        place = Path(name)
        place.chmod(0o1777)
        monkeypatch.setenv("TMPDIR", name)
        monkeypatch.setattr(tempfile, "tempdir", name)
        yield place
