"""What several test modules share."""

from __future__ import annotations

import compileall
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

from serverdyno.plan import check_suite, quick
from support.consenting import namespace
from support.dyno_process import PATIENCE_S, Home, new_home
from support.places import ROOT

if TYPE_CHECKING:
    from support.fleet_nodes import RunningFleet

__all__ = ["namespace"]  # a fixture

# No property is timed: on a busy machine an example may take long, and so may making one up.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# Test modules, by the beginning of their names, in the order in which they begin. The tests of a group share something
# and run in turn; first those that change the machine's limits, or count what is left of its counters of system calls.
GROUPS = {
    "the machine's limits and counters": (
        "test_abandoned",
        "test_benches_files",
        "test_bonnie",
        "test_durability",
        "test_files_experiment",
        "test_generator_processes",
        "test_powercut",
        "test_room",
        "test_samba",
        "test_scenario",
        "test_server_ended",
        "test_tasks",
        "test_testbed",
    ),
    "file servers": (
        "test_ask",
        "test_contention",
        "test_external_smb",
        "test_failover",
        "test_files",
        "test_kerberos",
        "test_negotiated",
        "test_nfs",
        "test_reference_nfs",
        "test_reference_smb",
        "test_users_workspaces",
    ),
    "fleets": ("test_fleet",),
}
# Modules that share nothing with others. Who begins these last waits for them in the end.
LONGEST = (
    "test_benches",
    "test_capacity",
    "test_http2",
    "test_live",
    "test_load_places",
    "test_open_load",
    "test_runner",
    "test_servers",
    "test_sessions",
    "test_suite",
    "test_team",
    "test_tls",
    "test_until",
)
FLEET: pytest.StashKey[tuple[ExitStack, RunningFleet]] = pytest.StashKey()
# Modules whose tests share nothing, not even a server.
WITHOUT_SERVER = ("analysis/", "published/", "report/", "store/test_store_hostile")


def group_of(path: str) -> str | None:
    """Return the group of a module, given its path below `tests/`."""
    name = path.rpartition("/")[2]
    return next((group for group, names in GROUPS.items() if name.startswith(names)), None)


def path_of(item: pytest.Item) -> str:
    """Return the path of a test's module below `tests/`."""
    return item.nodeid.partition("::")[0].removeprefix("tests/")


def place(path: str) -> int:
    """Return when a module's tests begin: the lower, the sooner."""
    if (group := group_of(path)) is not None:
        return [*GROUPS].index(group)
    name = path.rpartition("/")[2]
    ranks = (name.startswith(LONGEST), not path.startswith(WITHOUT_SERVER), True)
    return len(GROUPS) + ranks.index(True)


class SharersInTurn(LoadScopeScheduling):  # type: ignore[misc]  # pytest-xdist has no types
    """Tests that share something run one after the other, in one worker; who is done takes what begins next."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0].removeprefix("tests/")
        return group_of(path) or (nodeid if path.startswith(WITHOUT_SERVER) else path)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In the order in which they begin, which is that of the files otherwise."""
    items.sort(key=lambda item: place(path_of(item)))


@pytest.hookimpl(tryfirst=True)  # before pytest chooses one
def pytest_configure(config: pytest.Config) -> None:
    """A place for temporary files, signals as they are where nobody ignores them, and modules that are compiled."""
    _own_place(config)
    _hear_signals()
    if not hasattr(config, "workerinput"):  # once, and not in each worker
        # Each `dyno` would compile what it imports where PYTHONDONTWRITEBYTECODE is set, as images of containers do.
        compileall.compile_dir(ROOT / "python", quiet=1)


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
    """For `make test-python`. The order is ours, and not by the number of tests."""
    config.option.loadscopereorder = False
    return SharersInTurn(config, log)


@pytest.fixture(scope="session")
def home() -> Iterator[Home]:
    """Where `dyno` runs as a process of its own."""
    with new_home() as made:
        yield made


@pytest.fixture
def fleet(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> RunningFleet:
    """Three nodes and their scheduler, all there whatever an earlier test did to them. They are waited for as all else
    that tests start is.
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
    """End the fleet after the last test of its group: others count the processes that this one has."""
    if FLEET in item.config.stash and (nextitem is None or group_of(path_of(nextitem)) != "fleets"):
        stack, _ = item.config.stash[FLEET]
        del item.config.stash[FLEET]
        stack.close()


@pytest.fixture
def short_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let plans of this process have windows too short to say anything of a server, for tests of all that surrounds
    them.
    """
    for module in (check_suite, quick):
        monkeypatch.setattr(module, "MIN_WINDOW_S", 0.1)


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
