"""Damaged and foreign folders: reading and resuming them end in time with a message, whatever they contain."""

from __future__ import annotations

import io
import random
import shutil
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest
from rich.console import Console

from serverdyno import report
from serverdyno.errors import DynoError
from serverdyno.report.views import document, html, markdown, text
from serverdyno.run import disclose
from serverdyno.run.experiment import carry_out
from serverdyno.store import table
from serverdyno.store.experiment import Experiment
from serverdyno.store.note import RunNote
from support.dyno_process import Home
from support.experiments import Listener
from support.hostile_folders import Damage, cases, changed_at_random
from support.places import ROOT
from support.synthetic_experiment import Shape, experiment

CASES = dict(cases())
CORPUS = ROOT / "tests" / "data" / "corpus"
EXAMPLES = [3, pytest.param(30, marks=pytest.mark.long)]
LIMIT_S = 60
OF_COMMANDS = {
    "experiment.json is objects 100,000 deep": Home.dyno,  # a process has its own stack
    "description: command is 7": Home.here,
    "level: an operation has no histogram": Home.here,
}


@pytest.fixture(scope="module", autouse=True)
def decoded_once() -> Iterator[None]:
    """Decode equal files only once, because most files of a damaged folder are intact and each pass decodes all."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table, "decode", cache(table.decode))
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a small finished experiment."""
    folder = tmp_path_factory.mktemp("hostile") / "whole"
    shapes = {"apache": Shape(300), "nginx": Shape(400)}
    source = experiment(shapes, clients=(1, 8), repetitions=1)
    with Experiment.create(folder, "name = 'x'\n", source.head) as kept:
        for record in source.records:
            kept.write_level(record)
        for run in source.head.order:
            kept.write_run_note(run, RunNote(state="done"))
        kept.write_host({"system": {"kernel": "of another machine"}})
        for name in shapes:
            files = {"httpd.conf": "Listen 1\nListen 2\n"}
            described = {"server": name, "version": "2.4", "command": ["x"], "settings": {}, "notes": []}
            kept.write_description(name, described | {"files": files})
    return folder


def shown(folder: Path) -> None:
    """Show a folder in every form, or refuse it with a message."""
    with suppress(DynoError):
        built = report.build(Experiment.open(folder))
        text.render(built, Console(file=io.StringIO(), width=120))
        html.page(built, {figure.key: "" for figure in built.figures})
        markdown.text(built).encode()
        document.ReportDocument.of(built).as_json()


@pytest.mark.timeout(LIMIT_S)
@pytest.mark.parametrize("damage", CASES.values(), ids=CASES)
def test_a_folder_is_reported_and_resumed_or_refused_in_words(
    whole: Path, tmp_path: Path, damage: Damage, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A resume on another machine ends at once, without creating documents.
    monkeypatch.setattr(disclose, "document_root", lambda: tmp_path)
    folder = tmp_path / "e"
    shutil.copytree(whole, folder)
    damage(folder)
    shown(folder)
    with suppress(DynoError), Experiment.open(folder, writable=True) as opened:
        opened.set_aside_damaged()
        carry_out(opened, Listener())


@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.parametrize("form", sorted(path.parent.name for path in CORPUS.glob("*/experiment.json")))
def test_a_recorded_experiment_with_any_value_changed_is_reported_or_refused(
    form: str, examples: int, tmp_path: Path
) -> None:
    choose = random.Random(form)
    for number in range(examples):
        folder = tmp_path / f"{number}"
        shutil.copytree(CORPUS / form, folder)
        changed_at_random(folder, choose)
        shown(folder)


@pytest.mark.parametrize("name", OF_COMMANDS)
def test_the_command_ends_in_words(home: Home, whole: Path, tmp_path: Path, name: str) -> None:
    folder, dyno = tmp_path / "e", OF_COMMANDS[name]
    shutil.copytree(whole, folder)
    CASES[name](folder)
    done = dyno(home, "resume", folder)
    assert done.returncode in (0, 1, 2)  # 0: all levels exist, and the report names the rest
    assert "Traceback" not in done.stderr
    done = dyno(home, "report", folder)
    assert done.returncode in (0, 1)
    assert "Traceback" not in done.stderr
    assert "damaged" in (done.stdout + done.stderr).lower()


def test_levels_that_no_measurement_has_made_are_measured_again(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "e"
    shutil.copytree(whole, folder)
    CASES["level: an operation has no histogram"](folder)
    with Experiment.open(folder, writable=True) as opened:
        [said] = opened.set_aside_damaged()
        assert "by_operation.response_time_hdr is not a valid histogram" in said
        assert (1, 1) not in opened.finished()
