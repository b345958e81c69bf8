"""Load files in dbench's format: the packaged recording, and load files written for single benchmarks.

`serverdyno._native.LoadFile` and smbtorture replay them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

# NetBench's disk mix as recorded by dbench's authors, 458,344 operations. It is in Debian's package `dbench`.
PACKAGED = Path("/usr/share/dbench/client.txt")
PIECE_BYTES = 65536
DIRECTORY = r"\clients\client1"
OK, NOT_THERE = "NT_STATUS_OK", "NT_STATUS_OBJECT_NAME_NOT_FOUND"
# Options and disposition of NTCreateX (MS-SMB2 2.2.13).
MAKE, OPEN, REPLACE = "0x40 0x2", "0x40 0x1", "0x40 0x5"
STREAM_WAYS = ("write", "read")


def stream(path: Path, way: str, file_bytes: int) -> Path:
    """Write a load file that writes or reads a file from beginning to end, in pieces of 64 KiB. Return `path`.

    Writing truncates the file first, like `put` to an existing file. Reading queries its size, like `get`.
    """
    pieces = range(0, file_bytes, PIECE_BYTES)
    command = {"write": "WriteX", "read": "ReadX"}[way]
    again = REPLACE if way == "write" else OPEN
    return _write(
        path,
        [
            *beginning(),
            f'NTCreateX "{DIRECTORY}\\stream" {MAKE} 1 {OK}',
            *(f"WriteX 1 {offset} {PIECE_BYTES} {PIECE_BYTES} {OK}" for offset in pieces),
            f"Close 1 {OK}",
            f'QUERY_PATH_INFORMATION "{DIRECTORY}\\stream" 1004 {OK}',  # the set-up ends with a successful query
            f'NTCreateX "{DIRECTORY}\\stream" {again} 2 {OK}',
            f"QUERY_FILE_INFORMATION 2 258 {OK}",
            *(f"{command} 2 {offset} {PIECE_BYTES} {PIECE_BYTES} {OK}" for offset in pieces),
            f"Close 2 {OK}",
        ],
    )


def office(path: Path) -> Path:
    """Write a load file with each kind of operation on a 64 KiB document, for very many sessions.

    Return `path`.
    """
    document, draft, saved = (f"{DIRECTORY}\\{name}" for name in ("document", "draft.tmp", "saved.bak"))
    return _write(
        path,
        [
            *beginning(),
            f'NTCreateX "{document}" {MAKE} 1 {OK}',
            f"WriteX 1 0 65536 65536 {OK}",
            f"Close 1 {OK}",
            f'QUERY_PATH_INFORMATION "{document}" 1004 {OK}',
            f'NTCreateX "{document}" {OPEN} 2 {OK}',
            f"QUERY_FILE_INFORMATION 2 258 {OK}",
            *(f"ReadX 2 {offset} 4096 4096 {OK}" for offset in range(0, 32768, 4096)),
            *(f"WriteX 2 {offset} 4096 4096 {OK}" for offset in (0, 8192)),
            f"Flush 2 {OK}",
            f"Close 2 {OK}",
            f'NTCreateX "{draft}" {OPEN} 3 {NOT_THERE}',
            f'NTCreateX "{draft}" {MAKE} 4 {OK}',
            f"WriteX 4 0 8192 8192 {OK}",
            f"LockX 4 0 100 {OK}",
            f"UnlockX 4 0 100 {OK}",
            f"Close 4 {OK}",
            f'FIND_FIRST "{DIRECTORY}\\*.tmp" 260 1366 1 {OK}',
            f'Rename "{draft}" "{saved}" {OK}',
            f"QUERY_FS_INFORMATION 1 {OK}",
            f'Unlink "{saved}" 0x16 {OK}',
        ],
    )


def listing(path: Path, files: int) -> Path:
    """Write a load file that lists a directory of empty files repeatedly. Return `path`."""
    return _write(
        path,
        [
            *beginning(),
            *(
                line
                for number in range(files)
                for line in (f'NTCreateX "{DIRECTORY}\\file{number}" {MAKE} 1 {OK}', f"Close 1 {OK}")
            ),
            f'FIND_FIRST "{DIRECTORY}\\*" 260 1366 {files} {OK}',
        ],
    )


def beginning() -> Iterator[str]:
    """Yield the lines that create the client's empty directory."""
    yield f'Deltree "{DIRECTORY}" {OK}'
    yield f'Mkdir "\\clients" {OK}'
    yield f'NTCreateX "{DIRECTORY}" 0x1 0x2 0 {OK}'
    yield f"Close 0 {OK}"


def _write(path: Path, lines: Iterable[str]) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
