"""Create the local files that the steps of a scenario copy. The data plane copies them."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from serverdyno.errors import UserError
from serverdyno.probes.abandoned import private_directory

_POOL_BYTES = 1_048_573  # a prime, so that the pool's repetitions don't make blocks of a file equal


@contextmanager
def local_files(sizes: Mapping[str, int], seed: int) -> Iterator[Path]:
    """Yield a directory with files of these sizes, and remove it at the end. Raises UserError."""
    with ExitStack() as stack:
        try:
            directory = stack.enter_context(private_directory("scenario"))
        except OSError as error:
            raise UserError(
                f"no temporary directory: {error.strerror}", hint="Set TMPDIR to another directory."
            ) from error
        needed = 2 * sum(sizes.values())
        if needed > shutil.disk_usage(directory).free:
            raise UserError(
                f"{directory.parent} has too little free space to copy files of {needed:,} bytes",
                hint="Set TMPDIR to another directory, or use a smaller --scale.",
            )
        for number, (name, size_bytes) in enumerate(sizes.items()):
            _make(directory / name, size_bytes, seed + number)
        yield directory


def _make(path: Path, size_bytes: int, seed: int) -> None:
    """Fill a file with incompressible data."""
    pool = random.Random(seed).randbytes(_POOL_BYTES)
    with path.open("wb") as file:
        for begin in range(0, size_bytes, _POOL_BYTES):
            file.write(pool[: size_bytes - begin])
