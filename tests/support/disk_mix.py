"""Short runs of the disk mix on a private Samba, for tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benches.levels import files_level, smb_target

from serverdyno import _native
from serverdyno.analysis import stalls
from serverdyno.servers.samba import PROOF_NAME, Samba

PATIENCE_S = 90.0
CLIENTS_DIRECTORY = _native.Workspaces.DIRECTORY  # prefix of a load's directory
FILES = 57  # 56 files of a workspace and the marker


def target(server: Samba, **smb: Any) -> _native.Target:
    """Return a target of the server's shares; `smb` changes its options."""
    access = server.access()
    options: dict[str, Any] = {
        "shares": list(access.shares),
        "user": access.user,
        "password": access.password,
        "network_namespace": access.network_namespace,
    }
    return smb_target(smb.pop("url", access.url), **(options | smb))


def clients_directory(share: Path) -> Path:
    """Return the directory of the only load that has used the share."""
    [found] = share.glob(f"{CLIENTS_DIRECTORY}-*")
    return found


def begun(
    to: _native.Target,
    *,
    workspaces: _native.Workspaces | None = None,
    files: Mapping[str, Any] | None = None,
    **shape: Any,
) -> _native.Load:
    """Start a level of two clients for half a second, unless `shape` differs."""
    wanted = {"clients": 2, "threads": 1, "length_s": 0.5, "timeout_s": 20.0} | shape
    return files_level(to, {"workload": "diskmix"} | dict(files or {}), workspaces, **wanted).start()


def ended(load: _native.Load) -> dict[str, Any]:
    """Return the result of a level after a bounded wait."""
    assert load.wait(PATIENCE_S), "the level does not end"
    return load.result()


def mixed(server: Samba, *, smb: Mapping[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    """Run a level to its end."""
    return ended(begun(target(server, **(smb or {})), **options))


LARGEST_READ_BYTES = 65_536


def worked(result: dict[str, Any]) -> bool:
    """Return whether every client worked and no operation failed."""
    everybody = result["clients_participating"] == result["clients_planned"]
    return bool(result["errors"] == [] and everybody and result["operations"] > 0)


def whole(result: dict[str, Any]) -> bool:
    """Return whether every client worked, no operation failed, and every byte that was read was compared.

    The level must have no ramps: bytes read are those of the window, and a client's last read may end after it.
    """
    read, checked = result["bytes_read"], result["bytes_checked"]
    assert checked is not None
    most = read + result["clients_planned"] * LARGEST_READ_BYTES
    return worked(result) and bool(0 < read <= checked <= most)


def silent_seconds(result: dict[str, Any]) -> tuple[int, ...]:
    """Return the seconds of a level without ramps that a report calls a stall."""
    completed = {row["second"]: row["operations"] for row in result["by_second"]}
    return stalls.stalled(completed, 0.0, result["window_s"])


def passed(result: dict[str, Any]) -> dict[str, int]:
    """Return the calls below the client cache that succeeded, by name."""
    return {call["call"]: call["done"] for call in result["calls"]}


def served(server: Samba) -> dict[str, int]:
    """Return the server's own counts of requests, by operation."""
    operations = server.operations_served()
    assert operations is not None, "smbd keeps no counters here"
    return operations


def contents(directory: Path) -> dict[str, bytes]:
    """Return the contents of every file below a directory."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and path.name != PROOF_NAME
    }


def names(directories: Iterable[Path]) -> list[list[str]]:
    """Return the sorted names of everything below each directory."""
    return [sorted(str(path.relative_to(top)) for path in top.rglob("*")) for top in directories]
