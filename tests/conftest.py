"""What several test modules share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dyno_process import Home, new_home


@pytest.fixture(scope="session")
def home() -> Iterator[Home]:
    """Where `dyno` runs as a process of its own."""
    with new_home() as made:
        yield made
