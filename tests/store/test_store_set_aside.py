"""A resume sets aside an experiment's damaged records, by name, but nothing if a file can't be read."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from serverdyno.errors import DynoError
from serverdyno.store.experiment import Experiment
from serverdyno.store.note import RunNote
from support.records import make_head, make_record


@pytest.fixture
def experiment(tmp_path: Path) -> Iterator[Experiment]:
    with Experiment.create(tmp_path / "experiment", "name = 'x'\n", make_head()) as made:
        yield made


def damage(path: Path) -> bytes:
    """Cut off the end of a file, and return the rest."""
    path.write_bytes(path.read_bytes()[:-9])
    return path.read_bytes()


def test_what_is_damaged_is_set_aside_by_name_and_its_place_is_free_again(experiment: Experiment) -> None:
    run = experiment.head.order[0]
    experiment.write_level(make_record(run, 1))
    experiment.write_level(make_record(run, 2))
    experiment.write_run_note(run, RunNote(state="done"))
    folder = experiment.folder / "runs" / run.folder
    shutil.copy(folder / "level-01.parquet", folder / "level-03.parquet")  # of another level
    whole = (folder / "level-01.parquet").read_bytes()
    left = {path: damage(path) for path in (folder / "level-02.parquet", folder / "run.json")}

    said = experiment.set_aside_damaged()
    named = (*left, folder / "level-03.parquet")
    assert all(any(f"{path} is " in sentence for sentence in said) for path in named) and len(said) == 3
    assert [path.with_name(f"{path.name}.damaged").read_bytes() for path in left] == list(left.values())
    assert (experiment.finished(), experiment.run_notes()) == ({(1, 1)}, {})
    assert (folder / "level-01.parquet").read_bytes() == whole
    assert experiment.set_aside_damaged() == []
    experiment.write_level(make_record(run, 2))
    assert experiment.finished() == {(1, 1), (1, 2)}

    again = damage(folder / "level-02.parquet")
    assert len(experiment.set_aside_damaged()) == 1
    assert (folder / "level-02.parquet.damaged").read_bytes() == left[folder / "level-02.parquet"]
    assert (folder / "level-02.parquet.damaged-2").read_bytes() == again
    assert len(experiment.set_aside) == 4
    assert experiment.set_aside[-1] == f"runs/{run.folder}/run.json.damaged"


def test_nothing_is_set_aside_where_a_file_can_not_be_read(experiment: Experiment) -> None:
    run = experiment.head.order[0]
    experiment.write_level(make_record(run, 1))
    experiment.write_run_note(run, RunNote(state="done"))
    folder = experiment.folder / "runs" / run.folder
    left = damage(folder / "level-01.parquet")
    (folder / "run.json").unlink()
    (folder / "run.json").mkdir()
    with pytest.raises(DynoError, match=r"run\.json can't be read"):
        experiment.set_aside_damaged()
    assert (folder / "level-01.parquet").read_bytes() == left and experiment.set_aside == []


def test_what_was_set_aside_before_an_error_is_told_with_it(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = experiment.head.order[0]
    experiment.write_level(make_record(run, 1))
    experiment.write_level(make_record(run, 2))
    folder = experiment.folder / "runs" / run.folder
    for name in ("level-01.parquet", "level-02.parquet"):
        damage(folder / name)
    rename = os.rename

    def full(old: str, new: str, **directories: int) -> None:
        if old == "level-02.parquet":
            raise OSError(errno.EROFS, "Read-only file system")
        rename(old, new, **directories)

    monkeypatch.setattr(os, "rename", full)
    with pytest.raises(
        DynoError, match=r"can't rename .*level-02.*level-01\.parquet is .* to level-01\.parquet\.damaged\)"
    ):
        experiment.set_aside_damaged()
    assert experiment.set_aside == [f"runs/{run.folder}/level-01.parquet.damaged"]


def test_only_files_with_the_exact_ending_were_set_aside(experiment: Experiment) -> None:
    folder = experiment.folder / "disclosure" / "samba.damaged-2"
    folder.mkdir(parents=True)
    for name in ("x.damaged.conf", "x.damaged-0", "y.damaged-old", "z.damaged", "z.damaged-12"):
        (folder / name).write_text("x")
    assert experiment.set_aside == [f"disclosure/samba.damaged-2/z.damaged{end}" for end in ("", "-12")]


def test_only_a_writer_sets_aside(experiment: Experiment) -> None:
    experiment.write_level(make_record(experiment.head.order[0], 1))
    path = experiment.folder / "runs/001-a-r1/level-01.parquet"
    left = damage(path)
    experiment.close()
    with Experiment.open(experiment.folder) as reader, pytest.raises(ValueError, match="reading only"):
        reader.set_aside_damaged()
    assert path.read_bytes() == left
