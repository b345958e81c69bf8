"""What several test modules share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dyno_process import Home, new_home


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
