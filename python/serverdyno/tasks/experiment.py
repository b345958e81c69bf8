"""The folder of an experiment of tasks, and its records: the way into it and out of it.

``` plan.toml  tasks.json  disclosure/... (as of other experiments)
runs/<NNN>-<configuration>-r<K>/<task>.json  runs/.../failure.json ```

A finished task is one file, written whole or not at all. Its head has another name than that of experiments with load
levels, so that neither is taken for the other.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import AwareDatetime, Field, ValidationError, model_validator

from serverdyno.errors import DynoError, UserError
from serverdyno.plan.model import Configuration, RunKey
from serverdyno.plan.protocols.model import Model
from serverdyno.scenarios.model import Scenario
from serverdyno.store.damage import DamagedError, damaged
from serverdyno.store.disclosing import Disclosing
from serverdyno.store.experiment import OF_TASKS as HEAD
from serverdyno.store.experiment import PLAN, REPORT
from serverdyno.store.folder import Folder
from serverdyno.store.json_file import MOST_BYTES, as_bytes, read_json, read_model
from serverdyno.store.lock import LOCK_NAME, WriterLock
from serverdyno.tasks.model import TaskPlan

if TYPE_CHECKING:
    from serverdyno import _native

FAILURE = "failure"
MOST_RUNS = 10_000
FORMAT_VERSION = 1
Seconds = Annotated[float, Field(ge=0, le=1e9)]
Count = Annotated[int, Field(ge=0)]


class StepRecord(Model):
    """One step, phase of Bonnie, or pass of a step. `state`: cold, warm, or the name of a phase of several clients.

    `user_s`, `system_s`: CPU time of the client's threads. `calls`: reads and writes that were timed by themselves,
    with their percentiles; None: none was. `bytes_checked`, `bytes_unknown`: that were read and found to be what was
    written, and of which that is not known; None: nothing was compared. `requests`: to the server, by the protocol's
    own names.
    """

    step: str = Field(max_length=200)
    state: str = Field(default="", max_length=40)
    figure: int | None = None
    elapsed_s: Seconds
    user_s: Seconds
    system_s: Seconds
    entries: Count | None = None
    bytes: Count = 0
    calls: Count | None = None
    p50_us: Seconds | None = None
    p99_us: Seconds | None = None
    max_us: Seconds | None = None
    bytes_checked: Count | None = None
    bytes_unknown: Count | None = None
    requests: dict[str, Count] = Field(default_factory=dict)

    @classmethod
    def of(
        cls,
        measured: _native.BonniePhase | _native.StepPass,
        *,
        step: str,
        state: str = "",
        figure: int | None = None,
    ) -> Self:
        """Return the record of what was measured: its fields are those of the data plane."""
        found = {name: value for name, value in measured.items() if name in cls.model_fields}
        return cls.model_validate({**found, "step": step, "state": state, "figure": figure})


class TaskRecord(Model):
    """A task that was carried out whole. `server_cpu_s`, `syncs` (system calls of the server that make data durable):
    from its begin to its end; None: not known, of syncs with the reason.
    """

    task: str
    started_unix_s: float = Field(ge=0, le=1e11)
    steps: list[StepRecord] = Field(min_length=1, max_length=10_000)
    server_cpu_s: Seconds | None = None
    syncs: dict[str, Count] | None = None
    syncs_unknown_because: str | None = None


class Failure(Model):
    """Why a run could not be carried out to its end."""

    task: str | None
    reason: str
    hint: str | None = None


class TaskHead(Model):
    """An experiment of tasks as decided. `plan` has the scale in force; `scenarios` are those that are carried out, at
    that scale, by the name of their task; `cpus`: of the client.
    """

    format_version: int = Field(default=FORMAT_VERSION, ge=1)
    tool_version: str
    created: AwareDatetime
    plan: TaskPlan
    scenarios: dict[str, Scenario]
    cpus: list[int]
    configurations: list[Configuration] = Field(min_length=1, max_length=MOST_RUNS)
    tasks: list[str] = Field(min_length=1)
    order: list[RunKey] = Field(min_length=1, max_length=MOST_RUNS)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        """Names become folders and files: none may lead out of the experiment's."""
        names = {configuration.name for configuration in self.configurations}
        words = [*names, *self.tasks]
        if bad := [word for word in words if not word or "/" in word or word.startswith(".") or "\0" in word]:
            raise ValueError(f"not a name: {bad[0][:100]!r}")
        if FAILURE in self.tasks or len(set(self.tasks)) < len(self.tasks):
            raise ValueError("two tasks of the same name, or one that a run's failure has")
        if any(key.configuration not in names or not 1 <= key.number <= MOST_RUNS for key in self.order):
            raise ValueError("a run of an unknown configuration, or without a number")
        if len({key.number for key in self.order}) < len(self.order):
            raise ValueError("two runs with the same number")
        return self


class TaskExperiment(Disclosing):
    """One folder. Close it, or use it in `with`: a writer holds the folder's lock until then."""

    def __init__(self, files: Folder, head: TaskHead, lock: WriterLock | None) -> None:
        self.folder = files.path
        self.head = head
        self._files = files
        self._lock = lock

    @classmethod
    def create(cls, folder: Path, plan_text: str, head: TaskHead) -> Self:
        """Begin an experiment in a new or empty folder, open for writing. Raises UserError for any other."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            files = Folder.open(folder)
        except OSError as error:
            raise UserError(f"can't make {folder}: {error.strerror}", hint="Name another folder.") from error
        if set(files.names()) - {LOCK_NAME}:
            raise UserError(
                f"{folder} exists and is not empty",
                hint="Name another folder, or continue an experiment with `dyno resume`.",
            )
        experiment = cls(files, head, WriterLock(files))
        files.write(PLAN, plan_text.encode(errors="replace"))
        # The head is last: a folder without it is not an experiment.
        files.write(HEAD, head.model_dump_json(indent=2).encode())
        return experiment

    @classmethod
    def open(cls, folder: Path, *, writable: bool = False) -> Self:
        """Open an experiment. Raises UserError where it is none, is of a newer format or is being written, and
        DynoError where it is damaged.
        """
        try:
            files = Folder.open(folder)
        except OSError as error:
            raise UserError(f"{folder} can't be read: {error.strerror}") from error
        if not files.exists(HEAD):
            raise UserError(f"{folder} is not an experiment of tasks: it has no {HEAD}")
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    @property
    def configurations(self) -> list[Configuration]:
        """Those of the head."""
        return self.head.configurations

    @property
    def plan_text(self) -> str:
        """The plan as the user wrote it."""
        return self._files.read(PLAN, MOST_BYTES).decode(errors="replace")

    def write_task(self, run: RunKey, record: TaskRecord) -> None:
        """Keep a finished task, for ever; a failure of the run that was noted before is gone. Raises ValueError for one
        that is there already.
        """
        name = _file(run, record.task)
        if self._files.exists(name):
            raise ValueError(f"{self.folder / name} is finished already")
        self._write(name, as_bytes(record.model_dump(mode="json")))
        if self._files.exists(_file(run, FAILURE)):
            self._files.remove(_file(run, FAILURE))

    def write_failure(self, run: RunKey, failure: Failure) -> None:
        """Note why a run ended early."""
        self._write(_file(run, FAILURE), as_bytes(failure.model_dump(mode="json")))

    def missing(self) -> dict[RunKey, list[str]]:
        """The tasks that have no record, by run, in order."""
        rest = {
            run: [task for task in self.head.tasks if not self._files.exists(_file(run, task))]
            for run in self.head.order
        }
        return {run: tasks for run, tasks in rest.items() if tasks}

    def records(
        self,
    ) -> tuple[dict[tuple[RunKey, str], TaskRecord], dict[RunKey, Failure], list[DamagedError]]:
        """Every finished task by run and name, every failure, and what is wrong with files that are damaged."""
        found: dict[tuple[RunKey, str], TaskRecord] = {}
        failures: dict[RunKey, Failure] = {}
        problems: list[DamagedError] = []
        for run in self.head.order:
            for task in (*self.head.tasks, FAILURE):
                name = _file(run, task)
                try:
                    if not self._files.exists(name):
                        continue
                    if task == FAILURE:
                        failures[run] = read_model(self._files, name, Failure)
                    else:
                        found[run, task] = read_model(self._files, name, TaskRecord)
                        if found[run, task].task != task:
                            del found[run, task]
                            raise DamagedError(self.folder / name, "of another task")
                except DamagedError as error:
                    problems.append(error)
        return found, failures, problems

    def set_aside_damaged(self) -> list[str]:
        """Rename each damaged record, so that its place is free; a sentence for each. Nothing is deleted."""
        said = []
        for problem in self.records()[2]:
            aside = self._files.set_aside(f"{problem.path.relative_to(self.folder)}")
            said.append(f"{problem}; set aside as {aside}")
        return said

    def report_folder(self) -> Folder:
        """Where its report is written."""
        return self._files.below(REPORT)


def _file(run: RunKey, task: str) -> str:
    return f"runs/{run.folder}/{task}.json"


def _read_head(files: Folder) -> TaskHead:
    path = files.path / HEAD
    read_json(files, HEAD)  # bounded in size and depth
    try:
        head = TaskHead.model_validate_json(files.read(HEAD, MOST_BYTES))
    except ValidationError as error:
        raise damaged(path, error) from error
    if head.format_version > FORMAT_VERSION:
        raise DynoError(
            f"{files.path} has format {head.format_version} of tasks; this version reads up to {FORMAT_VERSION}",
            hint="A newer Serverdyno made it: pip install --upgrade serverdyno",
        )
    return head
