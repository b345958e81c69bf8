"""The disclosure in an experiment's folder: of the machine, of the nodes, and of the server of each configuration.

Not for what is measured: `experiment.py`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from serverdyno.plan.model import Configuration
from serverdyno.store.damage import damaged
from serverdyno.store.disclosed import DisclosedServer
from serverdyno.store.folder import MIB, Folder
from serverdyno.store.json_file import as_bytes, read_model, read_object
from serverdyno.store.lock import WriterLock

HOST, FLEET = "disclosure/host.json", "disclosure/fleet.json"
MOST_DISCLOSED_BYTES = 16 * MIB
"""Of the configuration files of one server together."""


class Disclosing:
    """A folder that holds the disclosure of its configurations; whoever holds the lock writes."""

    folder: Path
    _files: Folder
    _lock: WriterLock | None

    @property
    @abstractmethod
    def configurations(self) -> list[Configuration]: ...

    def write_host(self, facts: Mapping[str, Any]) -> None:
        """The disclosure of the machine."""
        self._write(HOST, as_bytes(facts))

    def write_fleet(self, facts: Mapping[str, Any]) -> None:
        """The disclosure of the nodes that make the load."""
        self._write(FLEET, as_bytes(facts))

    def write_description(self, configuration: str, description: Mapping[str, Any]) -> None:
        """The disclosure of one configuration. The texts by name in its `files` are kept as files."""
        if configuration not in {known.name for known in self.configurations}:
            raise ValueError(f"{configuration} is not part of {self.folder}")
        folder = f"disclosure/{configuration}"
        for name, text in description.get("files", {}).items():
            self._write(f"{folder}/files/{_file_name(name)}", text.encode(errors="replace"))
        # Last, and with the list of the files: a description is whole once it is there.
        names = list(description.get("files", {}))
        self._write(f"{folder}/description.json", as_bytes({**description, "files": names}))

    def disclosure(self) -> dict[str, Any]:
        """`host` and `fleet` as they were written, and `servers`: the descriptions of the configurations, as they
        were."""
        kept: dict[str, Any] = {}
        if self._files.exists(HOST):
            kept["host"] = read_object(self._files, HOST)
        if self._files.exists(FLEET):
            kept["fleet"] = read_object(self._files, FLEET)
        names = [configuration.name for configuration in self.configurations]
        kept["servers"] = {
            name: self._description(f"disclosure/{name}")
            for name in names
            if self._files.exists(f"disclosure/{name}/description.json")
        }
        return kept

    def _description(self, folder: str) -> dict[str, Any]:
        name = f"{folder}/description.json"
        description = read_model(self._files, name, DisclosedServer)
        files, left = {}, MOST_DISCLOSED_BYTES
        for each in description.files:
            try:
                place = f"{folder}/files/{_file_name(each)}"
            except ValueError as error:
                raise damaged(self.folder / name, error) from error
            content = self._files.read(place, left, may_be_empty=True)
            left -= len(content)
            try:
                files[each] = content.decode()
            except ValueError as error:
                raise damaged(self.folder / place, error) from error
        return {**description.as_json(), "files": files}

    def _write(self, name: str, content: bytes) -> None:
        if self._lock is None:
            raise ValueError(f"{self.folder} is open for reading only")
        self._files.write(name, content)


def _file_name(name: str) -> str:
    """`/etc/mime.types` as `%2Fetc%2Fmime.types`: readable, and never a way out of the folder."""
    if name in ("", ".", ".."):
        raise ValueError(f"not a file name: {name!r}")
    return quote(name, safe="")
