"""Reference file servers of this process, and targets of load on them, for tests of workloads on files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benches.levels import directory_target, files_level, nfs_target, smb_target

from serverdyno import _native
from support.file_server import PATIENCE_S
from support.reference_servers import start_nfs, start_smb


@contextmanager
def nfs(**options: Any) -> Iterator[tuple[_native.Target, Any]]:
    server = start_nfs(**options)
    try:
        section = {"url": f"nfs://127.0.0.1:{server.port}/volume1?mountport={server.port}"}
        yield nfs_target(**section), server
    finally:
        server.stop()


@contextmanager
def smb(**options: Any) -> Iterator[tuple[_native.Target, Any]]:
    server = start_smb(**options)
    try:
        section: dict[str, Any] = {"url": f"smb://127.0.0.1:{server.port}/", "shares": ["volume1"]}
        yield smb_target(**section), server
    finally:
        server.stop()


def directory(path: Path) -> _native.Target:
    return directory_target(f"file://{path}")


def mixed(
    to: _native.Target,
    files: dict[str, Any],
    *,
    meanwhile: Callable[[], object] | None = None,
    **shape: Any,
) -> dict[str, Any]:
    """Run a level to its end: two clients for a second, unless `shape` differs.

    `meanwhile` is called after half a second.
    """
    wanted = {"clients": 2, "threads": 1, "length_s": 1.0, "timeout_s": 20.0} | shape
    load = files_level(to, files, None, **wanted).start()
    if meanwhile is not None:
        while load.snapshot()["elapsed_s"] < 0.5:
            assert not load.wait(0.02), "the level ends before it has begun"
        meanwhile()
    assert load.wait(PATIENCE_S), "the level does not end"
    return load.result()


def counts(result: dict[str, Any]) -> dict[str, int]:
    """Return the successes in the window by class."""
    return {row["operation"]: row["count"] for row in result["by_operation"]}
