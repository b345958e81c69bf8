"""What several test modules share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from dyno_process import Home, new_home

# Test modules, by the beginning of their names, that start no server and look at nothing of the machine. The others
# share its ports, mounts, limits and counters.
APART_FROM_THE_MACHINE = ("test_analysis_", "test_audit", "test_published", "test_report_")


class MachineInTurn(LoadScopeScheduling):  # type: ignore[misc]  # pytest-xdist has no types
    """One worker runs all tests that need the machine, one after the other; the others take the rest meanwhile."""

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.partition("::")[0].rpartition("/")[2]
        return nodeid if module.startswith(APART_FROM_THE_MACHINE) else "machine"


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> MachineInTurn:
    """For `make test-python`, which has two workers."""
    return MachineInTurn(config, log)


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
