"""Fixtures and hooks that several test modules share."""

from __future__ import annotations

import compileall
import gc
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from serverdyno.plan import check_suite, quick_options
from support.consenting import namespace
from support.dyno_process import PATIENCE_S, Home, new_home
from support.places import ROOT

if TYPE_CHECKING:
    from support.fleet_nodes import RunningFleet

__all__ = ["namespace"]  # a fixture

# No property has a deadline: on a busy machine, generating or testing an example may take long.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# Prefixes of test modules that start first. Tests of a group run in sequence in one worker, because they change the
# kernel's write-back limits, count mounts and tracers, or share a running fleet.
GROUPS = {
    "the kernel's state": (
        "test_abandoned",
        "test_durability",
        "test_files_experiment",
        "test_powercut",
        "test_samba",
    ),
    "fleets": ("test_fleet",),
}
FLEET: pytest.StashKey[tuple[ExitStack, RunningFleet]] = pytest.StashKey()
# Modules whose tests share nothing, not even a server.
WITHOUT_SERVER = ("analysis/", "published/", "report/", "store/test_store_hostile")


def group_of(path: str) -> str | None:
    name = path.rpartition("/")[2]
    return next((group for group, names in GROUPS.items() if name.startswith(names)), None)


def path_of(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0].removeprefix("tests/")


def place(path: str) -> int:
    """Return the rank of a module: lower ranks start sooner; modules without a server have the highest."""
    if (group := group_of(path)) is not None:
        return [*GROUPS].index(group)
    return len(GROUPS) + path.startswith(WITHOUT_SERVER)


class SharersInTurn(LoadScopeScheduling):  # type: ignore[misc]  # pytest-xdist has no types
    """Runs tests that share something in sequence in one worker; a free worker takes the next group."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0].removeprefix("tests/")
        return group_of(path) or (nodeid if path.startswith(WITHOUT_SERVER) else path)


def pytest_collection_finish() -> None:
    """Exempt all current objects from garbage collection, which would otherwise visit modules and tests each time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)  # A thirtieth of the CPU time went into collections.


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the modules by rank, and otherwise in the order of the files."""
    items.sort(key=lambda item: place(path_of(item)))


@pytest.hookimpl(tryfirst=True)  # before pytest chooses one
def pytest_configure(config: pytest.Config) -> None:
    """Create the directory for temporary files, restore ignored signals, and compile the modules."""
    _own_place(config)
    _hear_signals()
    if not hasattr(config, "workerinput"):  # once, and not in each worker
        # With PYTHONDONTWRITEBYTECODE, as in container images, each `dyno` would compile its imports.
        compileall.compile_dir(ROOT / "python", quiet=1)


def _own_place(config: pytest.Config) -> None:
    """Put temporary files below a directory of this run.

    At each start, pytest makes its usual directory inaccessible to other users, and servers under test run as such
    users.
    """
    if config.option.basetemp is None:  # set for workers, and by users who want to keep the directory
        place = Path(tempfile.mkdtemp(prefix="dyno-tests-"))
        config.option.basetemp = place / "t"
        config.add_cleanup(lambda: shutil.rmtree(place, ignore_errors=True))


def _hear_signals() -> None:
    """Stop ignoring signals that the tests send, which `nohup` and a shell's `&` make all test processes ignore.

    Programs inherit an ignored signal but no handler. The handler does nothing, so this process still ignores them.
    """
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


@pytest.hookimpl(optionalhook=True)  # absent under `-p no:xdist`
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> SharersInTurn:
    """Return the scheduler for `make test-python`, which starts groups in the order above, not by number of tests."""
    config.option.loadscopereorder = False
    return SharersInTurn(config, log)


@pytest.fixture(scope="session")
def home() -> Iterator[Home]:
    with new_home() as made:
        yield made


@pytest.fixture
def fleet(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> RunningFleet:
    """Return a running fleet of three nodes; nodes that an earlier test killed or stopped are restarted.

    Waits for the nodes have the time limit of all tests.
    """
    from support.fleet_nodes import running_fleet  # noqa: PLC0415 (takes half a second of CPU time)

    monkeypatch.setattr("serverdyno.fleet.membership.PATIENCE_S", PATIENCE_S)
    stash = request.config.stash
    if FLEET not in stash:
        stack = ExitStack()
        stash[FLEET] = stack, stack.enter_context(running_fleet(tmp_path_factory.mktemp("fleet") / "lab"))
    _, running = stash[FLEET]
    running.mend()
    return running


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End the fleet after the last test of its group, because other tests count the processes of this worker."""
    if FLEET in item.config.stash and (nextitem is None or group_of(path_of(nextitem)) != "fleets"):
        stack, _ = item.config.stash[FLEET]
        del item.config.stash[FLEET]
        stack.close()


@pytest.fixture
def short_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow plans with windows too short to judge a server, for tests that do not judge one."""
    for module in (check_suite, quick_options):
        monkeypatch.setattr(module, "MIN_WINDOW_S", 0.1)


@pytest.fixture
def own_tmpdir(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Put all temporary files of the test in one directory with a short path, as needed by the sockets in it."""
    tmp_path_factory.getbasetemp()  # created where pytest always creates it
    with tempfile.TemporaryDirectory(prefix="s-") as name:
        place = Path(name)
        place.chmod(0o1777)
        monkeypatch.setenv("TMPDIR", name)
        monkeypatch.setattr(tempfile, "tempdir", name)
        yield place
