"""The file that probes a user's directory leaves nothing behind, with and without a name."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from serverdyno.probes.durability import disk_fsync_s
from serverdyno.probes.synchronous import probe_file


@pytest.fixture
def without_tmpfile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse files without a name, as FUSE does."""
    opened = os.open

    def refusing(path: Any, flags: int, *more: Any, **named: Any) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        return opened(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", refusing)


def test_a_file_with_a_name_is_removed_after_it_is_closed(tmp_path: Path, without_tmpfile: None) -> None:
    with probe_file(tmp_path) as opened:
        [path] = tmp_path.iterdir()
        assert path.name.startswith("serverdyno-")
        os.write(opened, b"x")
        assert path.read_bytes() == b"x"
    assert list(tmp_path.iterdir()) == []


def test_a_probe_leaves_no_descriptor_and_no_file(tmp_path: Path) -> None:
    before = len([*Path("/proc/self/fd").iterdir()])
    assert len(disk_fsync_s(tmp_path, count=3)) == 3
    assert len([*Path("/proc/self/fd").iterdir()]) == before
    assert list(tmp_path.iterdir()) == []
