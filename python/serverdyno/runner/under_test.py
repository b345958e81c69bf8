"""The server of one configuration, for as long as load goes to it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from serverdyno import _native
from serverdyno.errors import UserError
from serverdyno.fleet import local
from serverdyno.fleet.consent import Shares, open_shares, open_target
from serverdyno.plan.model import Bounds, Configuration, Mix, Suite
from serverdyno.servers.base import Access, ServerDriver
from serverdyno.servers.running import running
from serverdyno.store.head import ExperimentHead

MOST_LOAD_FILE_BYTES = 1 << 30


@contextmanager
def under_test(
    head: ExperimentHead, configuration: Configuration, mixes: Sequence[Mix]
) -> Iterator[tuple[ServerDriver, local.Task]]:
    """The server, proven and open to load, and the task of loading it; it is stopped whatever happens.

    Raises DynoError, with nothing left running.
    """
    suite, bounds = head.suite, configuration.bounds
    if configuration.url is not None and suite.protocol == "http":
        # Consent comes before the first request, and the readiness check is one.
        open_target(configuration.url, bounds, mixes)
    with running(
        configuration.server, configuration.settings, cpus=configuration.cpus, url=configuration.url
    ) as server:
        yield (
            server,
            local.Task(
                suite=suite,
                target=opened(server.access(), suite, bounds, mixes),
                generator=head.plan.generator,
                cpus=tuple(head.plan.generator.cpus),
                bounds=bounds,
                load_file=load_file(suite),
            ),
        )


def opened(
    access: Access, suite: Suite, bounds: Bounds | None, mixes: Sequence[Mix]
) -> _native.Target | _native.SmbTarget:
    """The target that a server is reached at, by the protocol of the suite. Raises as `open_target` does."""
    if suite.protocol == "http":
        return open_target(access.url, bounds, mixes)
    shares = Shares(access.url, access.shares, access.user, access.password, access.network_namespace)
    return open_shares(shares, suite.smb, bounds, mixes)


def load_file(suite: Suite) -> _native.LoadFile | None:
    """The load file of a suite that replays one, parsed. Raises UserError."""
    path, noted = suite.files.load_file, suite.files.load_file_sha256
    if path is None:
        return None
    if noted is not None and sha256_of(Path(path)) != noted:
        raise UserError(
            f"{path} is not the file any more that the experiment began with",
            hint="Put it back, or begin a new experiment.",
        )
    try:
        return _native.LoadFile.read(path)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} can't be replayed: {error}") from error


def with_noted_load_file(suite: Suite) -> Suite:
    """The suite with the whole path of its load file, if it has one, and the file's SHA-256. Raises UserError."""
    if suite.files.load_file is None:
        return suite
    path = Path(suite.files.load_file).absolute()
    noted = {"load_file": str(path), "load_file_sha256": sha256_of(path)}
    return suite.model_copy(update={"files": suite.files.model_copy(update=noted)})


def sha256_of(path: Path) -> str:
    """Of a file of bounded size. Raises UserError."""
    try:
        if not path.is_file():
            raise UserError(f"{path} can't be replayed: it is no file")
        if path.stat().st_size > MOST_LOAD_FILE_BYTES:
            raise UserError(f"{path} can't be replayed: it has more than {MOST_LOAD_FILE_BYTES >> 20} MiB")
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"{path} can't be replayed: {error.strerror}") from error
