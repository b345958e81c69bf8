"""The common part of the drivers of private file servers: volumes on their own disk, one user, a private network.

A subclass defines the configuration and the command, as for any `LocalServer`. `volumes.py` creates the volumes.
"""

from __future__ import annotations

import os
import pwd
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from serverdyno.errors import ServerError
from serverdyno.servers import write_back
from serverdyno.servers.consent import UNLISTED
from serverdyno.servers.disk_settings import DiskSettings
from serverdyno.servers.file_server import FileServer
from serverdyno.servers.host_changes import HostChanges
from serverdyno.servers.local import check_path, worker_user
from serverdyno.servers.volumes import Volumes

DiskSettingsT = TypeVar("DiskSettingsT", bound=DiskSettings)

READY_VOLUMES = "volumes-are-there"


class VolumeServer(FileServer[DiskSettingsT]):
    """A file server with its own volumes. See `base.ServerDriver` for the contract."""

    def __init__(
        self,
        settings: DiskSettingsT,
        directory: Path,
        documents: Path,
        cpus: Sequence[int] = (),
        url: str | None = None,
    ) -> None:
        """Create the driver. `documents` is ignored. Raises UserError for a `url`."""
        super().__init__(settings, directory, documents, cpus, url)
        place = (
            Path(settings.data_directory) / directory.name if settings.data_directory else directory / "data"
        )
        self.volumes = Volumes(
            place, settings.volumes, settings.file_system, settings.mount_options, settings.image_mib
        )

    @property
    def data_directory(self) -> str:
        """Return the directory in which the volumes are created."""
        return f"{self.volumes.root.parent}"

    def effective_settings(self) -> dict[str, object]:
        """Return the effective settings, with the machine's write-back limits that the plan does not set."""
        changed = self.settings.write_back()
        kept = {name: write_back.in_force(name) for name in write_back.NAMES if name not in changed}
        limits = {f"vm_{name}": value for name, value in kept.items() if value is not None}
        return {**super().effective_settings(), **limits}

    @property
    def user(self) -> str:
        """Return the owner of the files: an unprivileged account if this process runs as root."""
        return worker_user() or pwd.getpwuid(os.geteuid()).pw_name

    def give_consent(self) -> None:
        """Write the consent document to every volume, if the server shows one. Raises OSError."""
        if not self.shows_consent:
            return
        for directory in self.data_directories():
            directory.chmod(UNLISTED)
            (directory / f"serverdyno-{self.consent_token}.txt").write_text(self.consent_document())

    def data_directories(self) -> list[Path]:
        """Return the directory of each share, while the server runs."""
        top = self.process.seen_from_here(self.volumes.top) if self.process else self.volumes.top
        return [top / name for name in self.volumes.names]

    def host_changes(self) -> HostChanges | None:
        return HostChanges(
            own_network=self.own_network,
            mount=self.volumes.mount,
            write_back=self.settings.write_back(),
            sync_delay_s=self.settings.fsync_delay_ms / 1000,
            remove=[str(self.volumes.root)] if self.settings.data_directory else [],
        )

    def check_place(self, program: str) -> None:
        """Check that the place of the volumes exists and the server can enter it. Raises ServerError."""
        place = self.volumes.root.parent if self.settings.data_directory else self.directory.parent
        check_path(place)
        if not place.is_dir():
            raise ServerError(
                f"data_directory does not exist: {place}", hint="Create this directory, or name another one."
            )
        for path in (place, *place.parents) if worker_user() else ():
            if not path.stat().st_mode & 0o001:
                raise ServerError(
                    f"{program} serves files as {self.user}, which has no access to {path}",
                    hint=f"chmod o+x {path}, or choose a directory that all users can enter.",
                )

    def furnish(self) -> None:
        """Create the volumes as far as possible before the server runs."""
        self.volumes.check()
        self.volumes.make_root()

    def start(self) -> None:
        """Start the server and its keeper, which mounts the volumes' file system; then create their directories."""
        super().start()
        account = pwd.getpwnam(self.user)
        assert self.process is not None
        try:
            self.volumes.make(self.process.seen_from_here(self.volumes.top), (account.pw_uid, account.pw_gid))
            self.give_consent()
        except OSError as error:
            raise ServerError(f"can't create the volumes: {error}\n{self.process.failure()}") from error

        (self.directory / READY_VOLUMES).touch()

    @property
    def wait_for_volumes(self) -> str:
        """Return a line for `/bin/sh` that waits for the volumes, for a server that needs them at its start."""
        return f'while [ ! -e "{self.directory / READY_VOLUMES}" ]; do sleep 0.02; done'

    def stop(self) -> None:
        """Stop the server and remove its volumes."""
        try:
            super().stop()
        finally:
            if self._prepared:
                shutil.rmtree(self.volumes.root, ignore_errors=True)
