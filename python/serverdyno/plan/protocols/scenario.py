"""Scenarios: the steps of a user who works with trees of files and with local files.

A workload of `files.py` whose steps are levels that end when done. `run/scenario.py` runs the steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from serverdyno import wording
from serverdyno.plan.protocols.model import Model, Spelled
from serverdyno.plan.protocols.work import PlannedStep

SCENARIO: Final = "scenario"
MOST_ENTRIES = 2_000_000
"""Maximum number of files and directories of one tree."""
MOST_BYTES = 1 << 40
Name = Annotated[
    str,
    Spelled(
        r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}",
        "1 to 100 of the characters A-Z, a-z, 0-9, _, . and - (the first not . or -)",
    ),
]


class TreeFiles(Model):
    """Files with a common prefix: `aaa1` to `aaa100`."""

    name: Name = Field(
        description="Prefix of the file names, followed by a number from 1: A-Z, a-z, 0-9, _, . and -."
    )
    count: int = Field(ge=1, le=MOST_ENTRIES, description="Number of files per directory.")
    bytes: int = Field(default=0, ge=0, le=MOST_BYTES, description="Size of each file.")


class Tree(Model):
    """A directory, its subdirectories, and the same files in each."""

    files: tuple[TreeFiles, ...] = Field(default=(), strict=False, description="Files per directory.")
    directories: int = Field(
        default=0,
        ge=0,
        le=10_000,
        description="Number of subdirectories per directory, except at the lowest level.",
    )
    levels: int = Field(
        default=0, ge=0, le=20, description="Number of directory levels below the topmost directory."
    )

    def directory_count(self) -> int:
        """Return the number of directories, including the topmost."""
        return sum(self.directories**level for level in range(self.levels + 1))

    def entries(self) -> int:
        """Return the number of files and directories."""
        return self.directory_count() * (1 + sum(files.count for files in self.files))


class LocalFile(Model):
    """A local file that a step copies. It is created before the measured time begins."""

    bytes: int = Field(
        ge=0, le=MOST_BYTES, description="Size of the file, whose content can't be compressed."
    )


class _Step(Model):
    """The keys that all steps have."""

    name: str | None = Field(default=None, max_length=60, description="Name of the step in reports.")
    figure: int | None = Field(
        default=None,
        ge=1,
        description="Number of the figure in the published report that is shown next to this step.",
    )
    warm: bool | None = Field(
        default=None,
        description="Repeat the step in the same session. Default: true if the step changes nothing.",
    )


class MakeTree(_Step):
    """Unpack an archive: create its directories, and its files with their contents."""

    do: Literal["make-tree"] = Field(description="Action of the step.")
    tree: str = Field(description="Name of the tree in `trees`.")
    times: bool = Field(default=False, description="Set the times of each file, as tar does.")


class List(_Step):
    """`ls`."""

    do: Literal["list"] = Field(description="Action of the step.")
    tree: str = Field(description="Name of the tree in `trees` whose topmost directory is listed.")
    pattern: str = Field(
        default="*", min_length=1, max_length=100, description="Names to list, with * and ?."
    )
    long: bool = Field(default=False, description="List attributes too, like ls -l.")


class Find(_Step):
    """`find`: visit every directory and read attributes."""

    do: Literal["find"] = Field(description="Action of the step.")
    tree: str = Field(description="Name of the tree in `trees`.")


class Stat(_Step):
    """Read the attributes of each file by its path."""

    do: Literal["stat"] = Field(description="Action of the step.")
    tree: str = Field(description="Name of the tree in `trees`.")


class Read(_Step):
    """Read each whole file and check its content."""

    do: Literal["read"] = Field(description="Action of the step.")
    tree: str = Field(description="Name of the tree in `trees`.")


class Build(_Step):
    """Build: look for missing headers, read sources, write object files."""

    do: Literal["build"] = Field(description="Action of the step.")
    tree: str = Field(description="Name of the tree in `trees` that contains the sources.")
    searches: int = Field(
        default=5, ge=0, le=1000, description="Number of missing names to look up per source."
    )
    object_bytes: int = Field(default=8192, ge=0, le=MOST_BYTES, description="Size of each object file.")


class RemoveTree(_Step):
    """`rm -r`."""

    do: Literal["remove-tree"] = Field(description="Action of the step.")
    tree: str = Field(description="Name of the tree in `trees`.")


class MakeFile(_Step):
    """`mkfile`: create a file of zeros."""

    do: Literal["make-file"] = Field(description="Action of the step.")
    file: Name = Field(description="Name of the file on the server.")
    bytes: int = Field(ge=0, le=MOST_BYTES, description="Size of the file.")


class CopyTo(_Step):
    """`cp` a local file to the server."""

    do: Literal["copy-to"] = Field(description="Action of the step.")
    local: str = Field(description="Name of the file in `local`.")
    file: Name = Field(description="Name of the file on the server.")


class CopyFrom(_Step):
    """`cp` a file from the server to this machine, and compare its content with the original."""

    do: Literal["copy-from"] = Field(description="Action of the step.")
    file: Name = Field(description="Name of the file on the server.")


class RemoveFile(_Step):
    """`rm`."""

    do: Literal["remove-file"] = Field(description="Action of the step.")
    file: Name = Field(description="Name of the file on the server.")


class Metadata(_Step):
    """The phases of mdtest: clients create, stat, read and remove files, and wait for each other between phases.

    If there are several clients, each stats and reads the files of the next one.
    """

    do: Literal["metadata"] = Field(description="Action of the step.")
    clients: int = Field(
        default=1, ge=1, le=256, description="Number of concurrent clients, each with a session and a thread."
    )
    files: int = Field(default=1000, ge=1, le=MOST_ENTRIES, description="Number of files per client.")
    bytes: int = Field(default=0, ge=0, le=1 << 30, description="Size of each file.")
    shared: bool = Field(
        default=False, description="Let all clients share one directory. false: each client has its own."
    )


class Streams(_Step):
    """Some clients write one file each, and others read one file each, without a client cache."""

    do: Literal["streams"] = Field(description="Action of the step.")
    writers: int = Field(default=0, ge=0, le=256, description="Number of clients that write.")
    readers: int = Field(default=0, ge=0, le=256, description="Number of clients that read.")
    bytes: int = Field(
        default=1 << 28, ge=1, le=MOST_BYTES, description="Size of each file, in whole blocks."
    )
    block_bytes: int = Field(default=1 << 16, ge=512, le=1 << 20, description="Size of each read or write.")
    depth: int = Field(
        default=1, ge=1, le=1024, description="Number of concurrent reads or writes per client."
    )
    random: bool = Field(default=False, description="Process the blocks in a random order, each block once.")


OnTree = MakeTree | List | Find | Stat | Read | Build | RemoveTree
OnFile = MakeFile | CopyTo | CopyFrom | RemoveFile
OfClients = Metadata | Streams
Step = Annotated[OnTree | OnFile | OfClients, Field(discriminator="do")]
CHANGES_NOTHING = (List, Find, Stat, Read, CopyFrom)
CAN_BE_REPEATED = (*CHANGES_NOTHING, Build, MakeFile, CopyTo)


class Scenario(Model):
    """Steps in their order, and the trees and files that they use."""

    published: Name | None = Field(
        default=None, description="The published report that the scenario re-creates."
    )
    trees: Mapping[Name, Tree] = Field(default_factory=dict, description="Trees of files, by name.")
    local: Mapping[Name, LocalFile] = Field(
        default_factory=dict, description="Files on this machine, by name."
    )
    steps: tuple[Step, ...] = Field(
        min_length=1, max_length=1000, strict=False, description="Steps in order."
    )

    @property
    def workspace_bytes(self) -> int:
        """The total size of all files that the steps create, including files that later steps remove."""
        return sum(_written_bytes(self, step) for step in self.steps)

    def made_entries(self) -> int:
        """Return the number of files and directories that the steps create."""
        return sum(_made_entries(self, step) for step in self.steps)

    def planned(self, _clients: int) -> tuple[PlannedStep, ...]:
        """Return each pass of each step.

        If a step has several passes, the first is cold and the others are warm. Steps of several clients have phases.
        """
        return tuple(
            PlannedStep(label(step), state, step.figure, clients)
            for step in self.steps
            for state, clients in states(step)
        )

    def described(self) -> str:
        return f"{wording.plural(len(self.steps), 'step')}, one after the other, in their own directory."

    def parameters(self) -> dict[str, Any]:
        """Return the settings that shape the load, by key path below `files`."""
        return {f"{SCENARIO}.{key}": value for key, value in self.model_dump(mode="json").items()}

    def problems(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Yield the key path and the reason of each contradiction."""
        for name, tree in self.trees.items():
            if tree.levels > 0 and tree.directories == 0:
                yield ("trees", name, "directories"), "must be at least 1 if there are levels"
            elif tree.entries() > MOST_ENTRIES:
                yield ("trees", name), f"has more than {MOST_ENTRIES:,} files and directories"
            names = [files.name for files in tree.files]
            if len(set(names)) < len(names):
                yield ("trees", name, "files"), "two of its entries have the same name"
        yield from self._problems_of_steps()

    def _problems_of_steps(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        there: set[str] = set()
        for place, step in enumerate(self.steps):
            if step.warm and not isinstance(step, CAN_BE_REPEATED):
                yield ("steps", place, "warm"), "a step that creates or removes something can't be repeated"
            if isinstance(step, OfClients):
                yield from _problems_of_clients(step, place)
                continue
            is_tree = isinstance(step, OnTree)
            key, name = ("tree", step.tree) if isinstance(step, OnTree) else ("file", step.file)
            at = ("steps", place, key)
            if is_tree and name not in self.trees:
                yield at, f"unknown tree {name!r}; `trees` has {', '.join(self.trees) or 'none'}"
            elif not is_tree and name in self.trees:
                yield at, f"{name!r} is the name of a tree, so a file can't have it"
            elif isinstance(step, MakeTree):
                if name in there:
                    yield at, f"an earlier step has already created {name!r}"
                there.add(name)
            elif isinstance(step, MakeFile | CopyTo):
                there.add(name)
            elif name not in there:
                yield at, f"no earlier step has created {name!r}"
            elif isinstance(step, RemoveTree | RemoveFile):
                there.discard(name)
            if isinstance(step, CopyTo) and step.local not in self.local:
                known = ", ".join(self.local) or "none"
                yield ("steps", place, "local"), f"unknown file {step.local!r}; `local` has {known}"


def _problems_of_clients(step: OfClients, place: int) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(step, Metadata):
        if step.clients * step.files > MOST_ENTRIES:
            yield (
                ("steps", place, "files"),
                f"all clients together would have more than {MOST_ENTRIES:,} files",
            )
        return
    if step.writers + step.readers == 0:
        yield ("steps", place, "writers"), "at least one client must write or read"
    if step.bytes < step.block_bytes:
        yield ("steps", place, "bytes"), f"must be at least one block ({step.block_bytes:,} bytes)"


def states(step: Step) -> list[tuple[str, int]]:
    """Return the state and the number of clients of each level of a step. Its levels are passes or phases."""
    match step:
        case Metadata():
            return [(phase, step.clients) for phase in ("create", "stat", "read", "remove")]
        case Streams():
            sides = (("write", step.writers), ("read", step.readers))
            return [(side, clients) for side, clients in sides if clients]
    warm = isinstance(step, CHANGES_NOTHING) if step.warm is None else step.warm
    return [("cold", 1), ("warm", 1)] if warm else [("", 1)]


def label(step: Step) -> str:
    """Return the name of a step: the name that it sets, or the command that it re-creates."""
    match step:
        case List():
            words = ["ls", "-l" if step.long else "", "" if step.pattern == "*" else step.pattern]
        case MakeFile():
            words = ["mkfile", f"{step.bytes:,} bytes"]
        case CopyTo():
            words = ["cp to", step.file]
        case CopyFrom():
            words = ["cp from", step.file]
        case RemoveFile():
            words = ["rm", step.file]
        case RemoveTree():
            words = ["rm -r", step.tree]
        case Metadata():
            words = ["metadata", wording.plural(step.clients, "client"), "shared" if step.shared else ""]
        case Streams():
            clients = [
                f"{step.writers} w" if step.writers else "",
                f"{step.readers} r" if step.readers else "",
            ]
            how = ["random" if step.random else "", f"{step.block_bytes // 1024}k", f"depth {step.depth}"]
            words = ["streams", *clients, *how]
        case MakeTree() | Find() | Stat() | Read() | Build():
            words = [step.do.removesuffix("-tree"), step.tree]
    return step.name or " ".join(word for word in words if word)


def _written_bytes(scenario: Scenario, step: Step) -> int:
    match step:
        case MakeTree():
            tree = scenario.trees[step.tree]
            return tree.directory_count() * sum(files.count * files.bytes for files in tree.files)
        case MakeFile():
            return step.bytes
        case CopyTo():
            return scenario.local[step.local].bytes
        case Metadata():
            return step.clients * step.files * step.bytes
        case Streams():
            return (step.writers + step.readers) * step.bytes
        case _:
            return 0


def _made_entries(scenario: Scenario, step: Step) -> int:
    match step:
        case MakeTree():
            return scenario.trees[step.tree].entries()
        case MakeFile() | CopyTo():
            return 1
        case Metadata():
            return step.clients * step.files
        case Streams():
            return step.writers + step.readers
        case _:
            return 0


def scaled(scenario: Scenario, scale: float) -> Scenario:
    """Return the scenario with the number of files in trees and the size of single files scaled, at least 1."""

    def times(value: int) -> int:
        return max(1, math.ceil(value * scale)) if value else 0

    trees = {
        name: tree.model_copy(
            update={
                "files": tuple(each.model_copy(update={"count": times(each.count)}) for each in tree.files)
            }
        )
        for name, tree in scenario.trees.items()
    }
    local = {
        name: file.model_copy(update={"bytes": times(file.bytes)}) for name, file in scenario.local.items()
    }

    def scaled_step(step: Step) -> Step:
        match step:
            case MakeFile():
                return step.model_copy(update={"bytes": times(step.bytes)})
            case Streams():
                return step.model_copy(update={"bytes": max(step.block_bytes, times(step.bytes))})
            case Metadata():
                return step.model_copy(update={"files": times(step.files)})
            case _:
                return step

    steps = tuple(scaled_step(step) for step in scenario.steps)
    return scenario.model_copy(update={"trees": trees, "local": local, "steps": steps})
