"""An experiment is a folder. This is the way into it and out of it.

```
plan.toml  experiment.json  ceilings.json
disclosure/host.json  disclosure/<configuration>/description.json  disclosure/<configuration>/files/...
runs/<NNN>-<configuration>-r<K>/run.json  runs/.../mix-<NN>.parquet
```

Every file is written whole or not at all, so that a killed writer loses the mix in progress and no more. Says
nothing about what the figures mean: that is `analysis`.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import quote

import pyarrow as pa
from pydantic import TypeAdapter, ValidationError

from serverdyno.errors import DynoError, UserError
from serverdyno.plan.model import RunKey
from serverdyno.store import table
from serverdyno.store.atomic import remove_unfinished, set_aside, set_aside_below, write_atomically
from serverdyno.store.damage import DamagedError, damaged, read_bytes, read_model, read_object
from serverdyno.store.file_format import CURRENT, FileFormat
from serverdyno.store.head import ExperimentHead
from serverdyno.store.lock import LOCK_NAME, WriterLock
from serverdyno.store.note import RunNote
from serverdyno.store.records import CeilingRecord, MixRecord

PLAN, HEAD, CEILINGS = "plan.toml", "experiment.json", "ceilings.json"
Kept = TypeVar("Kept")
_MIX_NAME = re.compile(r"mix-(\d+)\.parquet")


class Experiment:
    """One experiment folder. Close it, or use it in `with`: a writer holds the folder's lock until then."""

    def __init__(
        self, folder: Path, head: ExperimentHead, upgrades: FileFormat, found: int, lock: WriterLock | None
    ) -> None:
        self.folder = folder
        self.head = head
        self._format = upgrades
        self._found_version = found
        self._lock = lock

    @classmethod
    def create(cls, folder: Path, plan_text: str, head: ExperimentHead) -> Self:
        """Begins an experiment in a new or empty folder, open for writing. Raises UserError for any other."""
        try:
            taken = folder.exists() and (
                not folder.is_dir() or any(path.name != LOCK_NAME for path in folder.iterdir())
            )
            if not taken:
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"can't make {folder}: {error.strerror}", hint="name another folder") from error
        if taken:
            raise UserError(
                f"{folder} exists and is not empty",
                hint="name another folder, or continue an experiment with `dyno resume`",
            )
        lock = WriterLock(folder)
        try:
            write_atomically(folder / PLAN, plan_text.encode())
            # The head is last: a folder without it is not an experiment.
            write_atomically(folder / HEAD, head.model_dump_json(indent=2).encode())
        except BaseException:
            lock.release()
            raise
        return cls(folder, head, CURRENT, CURRENT.version, lock)

    @classmethod
    def open(cls, folder: Path, *, writable: bool = False, file_format: FileFormat = CURRENT) -> Self:
        """Opens an experiment for reading, which any number may do while one process writes, or for writing.

        Raises UserError where it is no experiment, is of a newer format, or is written by another process,
        and DynoError where it is damaged. An older format is upgraded on reading, and can't be written.
        """
        if not (folder / HEAD).is_file():
            raise UserError(
                f"{folder} is not an experiment: it has no {HEAD}",
                hint="name the folder that `dyno run` made",
            )
        lock = WriterLock(folder) if writable else None
        try:
            head, found = _read_head(folder / HEAD, file_format)
            if writable:
                file_format.check_writable(found, folder)
                remove_unfinished(folder)
        except BaseException:
            if lock is not None:
                lock.release()
            raise
        return cls(folder, head, file_format, found, lock)

    def close(self) -> None:
        """Lets another process write. May be repeated."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def plan_text(self) -> str:
        """The plan as the user wrote it."""
        return (self.folder / PLAN).read_text(encoding="utf-8")

    def write_mix(self, record: MixRecord) -> None:
        """Keeps one mix. One that was stopped early may be replaced; any other is kept as it is, for ever.

        Raises ValueError for a mix that this experiment doesn't have, or has already.
        """
        key = RunKey(record.run, record.configuration, record.repetition)
        if key not in self.head.order or record.mix not in {mix.index for mix in self.head.mixes}:
            raise ValueError(f"mix {record.mix} of {key.folder} is not part of {self.folder}")
        path = self._mix_path(key, record.mix)
        if path.exists() and not table.records([self._mix_table(path)])[0].stopped:
            raise ValueError(f"{path} is finished already")
        self._write(path, table.encode(record))

    def mixes(self) -> list[MixRecord]:
        """Every mix so far, by run and mix. Raises DynoError that names a file which is damaged."""
        return _all(self.readable_mixes())

    def readable_mixes(self) -> tuple[list[MixRecord], list[DynoError]]:
        """Every mix whose file is whole, by run and mix; and what is wrong with each of the others."""
        paths = {
            (key, int(match[1])): path
            for key in sorted(self.head.order, key=lambda key: key.number)
            for path in sorted(self._run_folder(key).glob("mix-*.parquet"))
            if (match := _MIX_NAME.fullmatch(path.name))
        }
        tables, problems = {}, []
        for place, path in paths.items():
            try:
                tables[place] = self._mix_table(path)
            except DynoError as error:
                problems.append(error)
        found = []
        for (key, mix), record in zip(tables, table.records(list(tables.values())), strict=True):
            if (RunKey(record.run, record.configuration, record.repetition), record.mix) == (key, mix):
                found.append(record)
            else:
                of = f"of another mix: of run {record.run}, mix {record.mix}"
                problems.append(DamagedError(paths[key, mix], of))
        return found, problems

    def finished(self) -> set[tuple[int, int]]:
        """Run number and mix of every mix that needs no repeating: kept, and not stopped early."""
        return {(record.run, record.mix) for record in self.mixes() if not record.stopped}

    def write_run_note(self, run: RunKey, note: RunNote) -> None:
        """What is to be said of one run beyond its mixes. Replaces an earlier note of the same run."""
        self._write_json(self._run_folder(run) / "run.json", note.as_json())

    def run_notes(self) -> dict[int, RunNote]:
        """The notes by run number. Raises DynoError that names a file which is damaged."""
        return _all(self.readable_run_notes())

    def readable_run_notes(self) -> tuple[dict[int, RunNote], list[DynoError]]:
        """Every note whose file is whole, by run number; and what is wrong with each of the others."""
        notes, problems = {}, []
        for key in sorted(self.head.order, key=lambda key: key.number):
            path = self._run_folder(key) / "run.json"
            try:
                if path.exists():
                    notes[key.number] = read_model(path, RunNote)
            except DynoError as error:
                problems.append(error)
        return notes, problems

    def write_ceilings(self, ceilings: Sequence[CeilingRecord]) -> None:
        """Keeps the generator's ceilings. Replaces what was written before."""
        self._write_json(self.folder / CEILINGS, [dataclasses.asdict(ceiling) for ceiling in ceilings])

    def ceilings(self) -> list[CeilingRecord]:
        """The generator's ceilings; empty before they were measured."""
        path = self.folder / CEILINGS
        if not path.exists():
            return []
        try:
            return TypeAdapter(list[CeilingRecord]).validate_json(read_bytes(path))
        except ValidationError as error:
            raise damaged(path, error) from error

    def set_aside_damaged(self) -> list[str]:
        """Renames each damaged mix, run's note and file of ceilings, so that its place is free; a sentence for each.

        Nothing is deleted. Raises DynoError for a file that can't be read, since it may be whole, before any is
        renamed; and where one can't be renamed, with those that were before. What is damaged of the head or the
        disclosure stays: a machine or server that is not known can't be shown to be the same.
        """
        if self._lock is None:
            raise ValueError(f"{self.folder} is open for reading only")
        problems = [*self.readable_mixes()[1], *self.readable_run_notes()[1], *_problem_of(self.ceilings)]
        unreadable = [problem for problem in problems if not isinstance(problem, DamagedError)]
        if unreadable:
            raise unreadable[0]
        said: list[str] = []
        for problem in problems:
            assert isinstance(problem, DamagedError)  # all others were raised
            try:
                aside = set_aside(problem.path)
            except DynoError as error:
                before = "; ".join(said) or "nothing was set aside before"
                raise DynoError(f"{error} ({before})", hint=error.hint) from error
            said.append(f"{problem}; set aside as {aside.name}")
        return said

    @property
    def set_aside(self) -> list[str]:
        """What was set aside so far, as paths below the folder."""
        return [f"{path.relative_to(self.folder)}" for path in set_aside_below(self.folder)]

    def write_host(self, facts: Mapping[str, Any]) -> None:
        """The disclosure of the machine."""
        self._write_json(self.folder / "disclosure" / "host.json", facts)

    def write_description(self, configuration: str, description: Mapping[str, Any]) -> None:
        """The disclosure of one configuration. The texts by name in its `files` are kept as files."""
        if configuration not in {known.name for known in self.head.configurations}:
            raise ValueError(f"{configuration} is not part of {self.folder}")
        folder = self.folder / "disclosure" / configuration
        for name, text in description.get("files", {}).items():
            self._write(folder / "files" / _file_name(name), text.encode())
        # Last, and with the list of the files: a description is whole once it is there.
        names = list(description.get("files", {}))
        self._write_json(folder / "description.json", {**description, "files": names})

    def disclosure(self) -> dict[str, Any]:
        """`host` as it was written, and `servers`: the descriptions of the configurations, as they were."""
        folder = self.folder / "disclosure"
        kept: dict[str, Any] = {}
        if (folder / "host.json").exists():
            kept["host"] = read_object(folder / "host.json")
        names = [configuration.name for configuration in self.head.configurations]
        kept["servers"] = {
            name: _read_description(folder / name)
            for name in names
            if (folder / name / "description.json").exists()
        }
        return kept

    def _run_folder(self, run: RunKey) -> Path:
        return self.folder / "runs" / run.folder

    def _mix_path(self, run: RunKey, mix: int) -> Path:
        return self._run_folder(run) / f"mix-{mix:02}.parquet"

    def _mix_table(self, path: Path) -> pa.Table:
        content = read_bytes(path)
        try:
            found = self._format.upgrade_mix(table.decode(content), self._found_version)
            is_mix = found.num_rows == 1 and found.schema.equals(table.SCHEMA)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise damaged(path, error) from error
        if not is_mix:
            raise damaged(path, "it is not one mix, or its columns are not those of a mix")
        return found

    def _write(self, path: Path, content: bytes) -> None:
        if self._lock is None:
            raise ValueError(f"{self.folder} is open for reading only")
        write_atomically(path, content)

    def _write_json(self, path: Path, value: Any) -> None:
        text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
        self._write(path, text.encode())


def _all(read: tuple[Kept, list[DynoError]]) -> Kept:
    """What was read, or the first of the problems."""
    found, problems = read
    if problems:
        raise problems[0]
    return found


def _problem_of(read: Callable[[], object]) -> Iterator[DynoError]:
    try:
        read()
    except DynoError as error:
        yield error


def _read_head(path: Path, file_format: FileFormat) -> tuple[ExperimentHead, int]:
    """The head in the current format, and the version of the format that was found."""
    data = read_object(path)
    version = data.get("format_version")
    if type(version) is not int or version < 1:
        raise damaged(path, "it has no format_version")
    file_format.check_readable(version, path.parent)
    try:
        return ExperimentHead.model_validate_json(
            json.dumps(file_format.upgrade_head(data, version))
        ), version
    except ValidationError as error:
        raise damaged(path, error) from error


def _read_description(folder: Path) -> dict[str, Any]:
    description = read_object(folder / "description.json")
    names = description.get("files")
    if not isinstance(names, list):
        raise damaged(folder / "description.json", "it lists no files")
    files = {}
    for name in names:
        try:
            files[name] = (folder / "files" / _file_name(name)).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise damaged(folder / "files", error) from error
    return {**description, "files": files}


def _file_name(name: str) -> str:
    """`/etc/mime.types` as `%2Fetc%2Fmime.types`: readable, and never a way out of the folder."""
    if name in ("", ".", ".."):
        raise ValueError(f"not a file name: {name!r}")
    return quote(name, safe="")
