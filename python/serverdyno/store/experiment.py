"""Read and write the folder of an experiment.

The folder contains:

    plan.toml  experiment.json  powercuts.json
    disclosure/host.json  disclosure/fleet.json
    disclosure/<configuration>/description.json  disclosure/<configuration>/files/...
    runs/<NNN>-<configuration>-r<K>/run.json  runs/.../level-<NN>.parquet

Every file is written completely or not at all, so that a killed writer loses only the level in progress. `analysis`
interprets the figures.

`table` is imported only to read or write levels, because importing Arrow takes 0.1 s of CPU time and 30 MB.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import quote

from pydantic import TypeAdapter, ValidationError

from serverdyno.errors import DynoError, UserError
from serverdyno.plan import expand
from serverdyno.plan.model import Configuration, RunKey
from serverdyno.plan.order import order as order_of
from serverdyno.store.check import check_level
from serverdyno.store.damage import DamagedError, damaged
from serverdyno.store.disclosed import DisclosedServer
from serverdyno.store.folder import Folder
from serverdyno.store.head import FORMAT_VERSION, ExperimentHead, PeakRates
from serverdyno.store.json_file import MOST_BYTES, as_bytes, read_json, read_model, read_object
from serverdyno.store.lock import LOCK_NAME, WriterLock
from serverdyno.store.note import RunNote
from serverdyno.store.powercut import PowerCuts
from serverdyno.store.records import LevelRecord
from serverdyno.units import MIB

if TYPE_CHECKING:
    import pyarrow as pa

PLAN, HEAD, POWER_CUTS = "plan.toml", "experiment.json", "powercuts.json"
REPORT = "report"
HOST, FLEET = "disclosure/host.json", "disclosure/fleet.json"
MOST_DISCLOSED_BYTES = 16 * MIB
"""Largest total size of one server's configuration files."""
PAGE = "report.html"
"""The page of a report, in its folder."""
MOST_LEVEL_BYTES = 64 * MIB
LEVELS_AT_ONCE = 256
"""Maximum number of files of levels in memory at once: a table takes more memory than its record."""
Value = TypeVar("Value")
_LEVEL_NAME = re.compile(r"level-(\d+)\.parquet")


class Experiment:
    """One experiment folder. Close it, or use it in `with`: a writer holds the folder's lock until then."""

    def __init__(self, files: Folder, head: ExperimentHead, lock: WriterLock | None) -> None:
        self.folder = files.path
        self.head = head
        self._files = files
        self._lock = lock
        self._made: list[Path] = []  # folders that `create` created, the deepest first

    @classmethod
    def create(cls, folder: Path, plan_text: str, head: ExperimentHead, *, is_new: bool = False) -> Self:
        """Create an experiment in a new or empty folder, open for writing. Raises TakenError for other folders.

        `is_new`: an empty folder is refused, too.
        """
        made = [each for each in (folder, *folder.parents) if not each.exists()]
        try:
            folder.mkdir(parents=True, exist_ok=not is_new)
            files = Folder.open(folder)
        except FileExistsError as error:
            raise _taken(folder) from error
        except OSError as error:
            raise UserError(
                f"can't make {folder}: {error.strerror}", hint="Name another folder: --into DIR."
            ) from error
        if set(files.names()) - {LOCK_NAME}:
            raise _taken(folder)
        lock = WriterLock(files)
        try:
            files.write(PLAN, plan_text.encode(errors="replace"))
            # The head is written last, because it makes the folder an experiment.
            files.write(HEAD, head.model_dump_json(indent=2).encode())
        except BaseException as error:
            for name in (PLAN, HEAD, LOCK_NAME):
                with contextlib.suppress(DynoError):
                    files.remove(name)
            lock.release()
            _remove_empty(made)
            if isinstance(error, DynoError):
                hint = "Nothing was measured. Free some space, or name another folder, and start again."
                raise DynoError(f"{error}", hint=hint) from error
            raise
        experiment = cls(files, head, lock)
        experiment._made = made
        return experiment

    @classmethod
    def open(cls, folder: Path, *, writable: bool = False) -> Self:
        """Open an experiment for writing, or for reading, which is possible while another process writes.

        Raises UserError if it is not an experiment, has another format, or is written by another process, and
        DynoError if it is damaged.
        """
        try:
            files = Folder.open(folder)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise _no_experiment(folder) from error
        except OSError as error:
            raise UserError(f"{folder} can't be read: {error.strerror}") from error
        if not files.exists(HEAD):
            raise _no_experiment(folder)
        lock = WriterLock(files) if writable else None
        try:
            head = _read_head(files)
            if writable:
                files.remove_unfinished()
        except BaseException:
            if lock is not None:
                lock.release()
            raise
        return cls(files, head, lock)

    def discard(self) -> bool:
        """Remove an experiment that has measured nothing; return whether it is gone.

        The experiment must be open for writing. If the folder contains other files, nothing is removed. A folder that
        existed before the experiment stays.
        """
        if self.finished() or self.run_notes():
            return False
        names = [PLAN, HEAD, HOST, LOCK_NAME]
        if set(self._files.names()) - {HEAD, PLAN, LOCK_NAME, "disclosure"}:
            return False
        for name in names:
            self._files.remove(name)
        self.close()
        with contextlib.suppress(OSError):
            (self.folder / "disclosure").rmdir()
        _remove_empty(self._made)
        return True

    def close(self) -> None:
        """Release the lock, so that another process can write. May be called repeatedly."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def plan_text(self) -> str:
        return self._files.read(PLAN, MOST_BYTES).decode(errors="replace")

    def extend(self, repetitions: int) -> None:
        """Add repetitions to the plan after the existing ones. Raises ValueError if the plan's order has no rounds."""
        plan = self.head.plan
        more = plan.repetitions + repetitions
        order = order_of(self.head.configurations, more, plan.order, self.head.seed)
        if order[: len(self.head.order)] != self.head.order:
            raise ValueError(f"a plan with the order {plan.order} can't get more repetitions")
        head = self.head.model_copy(
            update={"plan": plan.model_copy(update={"repetitions": more}), "order": order}
        )
        self._write(HEAD, head.model_dump_json(indent=2).encode())
        self.head = head

    def settle_rates(self, rates_per_s: list[int], peaks: PeakRates) -> None:
        """Store the rates derived from peaks as the suite's rates."""
        suite = self.head.suite
        assert suite.open is not None  # only open load has rates
        opened = suite.open.model_copy(update={"rate_per_s": rates_per_s, "percent_of_peak": []})
        suite = suite.model_copy(update={"open": opened})
        levels = expand.levels(suite, self.head.scale)
        head = self.head.model_copy(update={"suites": [suite], "levels": levels, "peaks": peaks})
        self._write(HEAD, head.model_dump_json(indent=2).encode())
        self.head = head

    def report_folder(self) -> Folder:
        return self._files.below(REPORT)

    @property
    def report_page(self) -> Path:
        return self.folder / REPORT / PAGE

    def write_level(self, *records: LevelRecord) -> None:
        """Store one level, or the levels of one group.

        Only void levels and incomplete groups may be replaced. Raises ValueError for an unknown or already stored
        level.
        """
        from serverdyno.store import table  # noqa: PLC0415

        names = []
        for record in records:
            key = RunKey(record.run, record.configuration, record.repetition)
            if key not in self.head.order or record.level not in {level.index for level in self.head.levels}:
                raise ValueError(f"level {record.level} of {key.folder} is not part of {self.folder}")
            names.append(f"{_run_folder(key)}/level-{record.level:02}.parquet")
        kept = [name for name in names if self._files.exists(name)]
        if len(kept) == len(names) and all(
            table.records([self._level_table(name)])[0].void is None for name in kept
        ):
            raise ValueError(f"{self.folder / names[0]} is already finished")
        for name, record in zip(names, records, strict=True):
            self._write(name, table.encode(record))

    def levels(self) -> list[LevelRecord]:
        """Return every recorded level, sorted by run and level. Raises DynoError with the name of a damaged file."""
        return _all(self.readable_levels())

    def readable_levels(self) -> tuple[list[LevelRecord], list[DynoError]]:
        """Return every level with an intact file, sorted by run and level, and the errors of the other files."""
        names, problems = self._level_names()
        if not names:
            return [], problems
        from serverdyno.store import table  # noqa: PLC0415

        found: list[LevelRecord] = []
        places = iter(names)
        while portion := [*islice(places, LEVELS_AT_ONCE)]:
            tables = {}
            for place in portion:
                try:
                    tables[place] = self._level_table(names[place])
                except DynoError as error:
                    problems.append(error)
            for place, record in zip(tables, table.records(list(tables.values())), strict=True):
                try:
                    self._check(place, names[place], record)
                except DamagedError as error:
                    problems.append(error)
                else:
                    found.append(record)
        return found, problems

    def _check(self, place: tuple[RunKey, int], name: str, record: LevelRecord) -> None:
        """Raise DamagedError if a record can't belong to the run and level `place`."""
        path = self.folder / name
        if (RunKey(record.run, record.configuration, record.repetition), record.level) != place:
            raise DamagedError(
                path, f"the record of another load level: run {record.run}, level {record.level}"
            )
        level = next((level for level in self.head.levels if level.index == record.level), None)
        if level is None:
            raise DamagedError(path, "the record of a load level that is not in the experiment")
        try:
            check_level(record, level)
        except ValueError as error:
            raise damaged(path, error) from error

    def _level_names(self) -> tuple[dict[tuple[RunKey, int], str], list[DynoError]]:
        """Return the files of levels by run and level, and the errors of unreadable run folders."""
        names: dict[tuple[RunKey, int], str] = {}
        problems = []
        for key in sorted(self.head.order, key=lambda key: key.number):
            folder = _run_folder(key)
            try:
                found = self._files.names(folder, "level-*.parquet")
            except DynoError as error:
                problems.append(error)
                continue
            names |= {
                (key, int(match[1])): f"{folder}/{name}"
                for name in found
                if (match := _LEVEL_NAME.fullmatch(name))
            }
        return names, problems

    def finished(self) -> set[tuple[int, int]]:
        """Return run number and level of every level that needs no repetition: stored and not void."""
        return {(record.run, record.level) for record in self.levels() if record.void is None}

    def write_run_note(self, run: RunKey, note: RunNote) -> None:
        """Store the note of one run; it replaces an earlier one."""
        self._write(f"{_run_folder(run)}/run.json", as_bytes(note.as_json()))

    def run_notes(self) -> dict[int, RunNote]:
        return _all(self.readable_run_notes())

    def readable_run_notes(self) -> tuple[dict[int, RunNote], list[DynoError]]:
        """Return every intact note by run number, and the errors of the other notes."""
        notes, problems = {}, []
        for key in sorted(self.head.order, key=lambda key: key.number):
            name = f"{_run_folder(key)}/run.json"
            try:
                if self._files.exists(name):
                    notes[key.number] = read_model(self._files, name, RunNote)
            except DynoError as error:
                problems.append(error)
        return notes, problems

    def write_power_cuts(self, cuts: PowerCuts) -> None:
        """Store the power cuts of a configuration; they replace earlier ones."""
        others = [each for each in self.power_cuts() if each.configuration != cuts.configuration]
        self._write(POWER_CUTS, as_bytes([each.model_dump(mode="json") for each in (*others, cuts)]))

    def power_cuts(self) -> list[PowerCuts]:
        """Return the power cuts of each tested configuration. Raises DynoError."""
        if not self._files.exists(POWER_CUTS):
            return []
        try:
            return TypeAdapter(list[PowerCuts]).validate_python(read_json(self._files, POWER_CUTS))
        except ValueError as error:
            raise damaged(self.folder / POWER_CUTS, error) from error

    def set_aside_damaged(self) -> list[str]:
        """Rename each damaged record and note, so that its name is free; return a sentence for each.

        Nothing is deleted. Raises DynoError, before any renaming, if a file can't be read (it may be intact), and if a
        file can't be renamed. A damaged head or disclosure stays, because a resume must compare machine and server with
        it.
        """
        if self._lock is None:
            raise ValueError(f"{self.folder} is open for reading only")
        problems = [*self.readable_levels()[1], *self.readable_run_notes()[1]]
        unreadable = [problem for problem in problems if not isinstance(problem, DamagedError)]
        if unreadable:
            raise unreadable[0]
        said: list[str] = []
        for problem in problems:
            assert isinstance(problem, DamagedError)  # all other errors were raised above
            try:
                aside = self._files.set_aside(f"{problem.path.relative_to(self.folder)}")
            except DynoError as error:
                before = "; ".join(said) or "no earlier file was renamed"
                raise DynoError(f"{error} ({before})", hint=error.hint) from error
            said.append(f"{problem}; renamed to {aside}")
        return said

    @property
    def set_aside(self) -> list[str]:
        """Return the damaged files renamed so far, as paths below the folder."""
        return self._files.was_set_aside()

    @property
    def configurations(self) -> list[Configuration]:
        return self.head.configurations

    def write_host(self, facts: Mapping[str, Any]) -> None:
        self._write(HOST, as_bytes(facts))

    def write_fleet(self, facts: Mapping[str, Any]) -> None:
        self._write(FLEET, as_bytes(facts))

    def write_description(self, configuration: str, description: Mapping[str, Any]) -> None:
        """Store the disclosure of one configuration; the texts in its `files` become files."""
        if configuration not in {known.name for known in self.configurations}:
            raise ValueError(f"{configuration} is not part of {self.folder}")
        folder = f"disclosure/{configuration}"
        for name, text in description.get("files", {}).items():
            self._write(f"{folder}/files/{_file_name(name)}", text.encode(errors="replace"))
        # Write the list of files last: if it exists, the description is complete.
        names = list(description.get("files", {}))
        self._write(f"{folder}/description.json", as_bytes({**description, "files": names}))

    def disclosure(self) -> dict[str, Any]:
        """Return `host` and `fleet` as written, and the configurations' descriptions as `servers`."""
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

    def _level_table(self, name: str) -> pa.Table:
        import pyarrow as pa  # noqa: PLC0415

        from serverdyno.store import table  # noqa: PLC0415

        path = self.folder / name
        content = self._files.read(name, MOST_LEVEL_BYTES)
        try:
            found = table.in_order(table.decode(content))
            found.validate(full=True)  # finds invalid UTF-8, and lists that end beyond their values
            is_level = found.num_rows == 1 and found.schema.equals(table.SCHEMA)
        except (pa.ArrowException, OSError, ValueError, TypeError) as error:
            raise damaged(path, error) from error
        if not is_level:
            raise damaged(path, "it does not contain exactly one load level, or its columns are wrong")
        return found


def _file_name(name: str) -> str:
    """Return a file name for a path, `%2Fetc%2Fmime.types` for `/etc/mime.types`, which can't leave the folder."""
    if name in ("", ".", ".."):
        raise ValueError(f"not a file name: {name!r}")
    return quote(name, safe="")


def _run_folder(run: RunKey) -> str:
    return f"runs/{run.folder}"


def _remove_empty(folders: Iterable[Path]) -> None:
    """Remove the folders that are empty, the deepest first."""
    with contextlib.suppress(OSError):
        for folder in folders:
            folder.rmdir()


class TakenError(UserError):
    """The folder of a new experiment is already used for something else."""


def _taken(folder: Path) -> TakenError:
    return TakenError(
        f"{folder} {'exists and is not empty' if folder.is_dir() else 'is a file'}",
        hint="Name another folder, or continue an experiment with `dyno resume`.",
    )


def _no_experiment(folder: Path) -> UserError:
    return UserError(
        f"{folder} is not an experiment: it has no {HEAD}", hint="Give the folder that `dyno run` created."
    )


def _all(read: tuple[Value, list[DynoError]]) -> Value:
    """Return the value in a pair of value and problems, or raise the first problem."""
    found, problems = read
    if problems:
        raise problems[0]
    return found


def _read_head(files: Folder) -> ExperimentHead:
    path, data = files.path / HEAD, read_object(files, HEAD)
    version = data.get("format_version")
    if type(version) is not int or version < 1:
        raise damaged(path, "it has no format_version")
    if version != FORMAT_VERSION:
        raise UserError(
            f"{files.path} has format {version}; this version of Serverdyno reads only format {FORMAT_VERSION}",
            hint="Use the version of Serverdyno that wrote it (`tool_version` in experiment.json), or run its plan "
            "again.",
        )
    try:
        return ExperimentHead.model_validate_json(json.dumps(data))
    except ValidationError as error:
        raise damaged(path, error) from error
