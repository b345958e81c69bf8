"""Commands of the documents are run, one of each kind: a command with its options.

Placeholders (URL, PLAN, EXPERIMENT) are replaced by a test's server, short plan and recorded experiment. Load lasts
1.25 s at a bounded rate, so that it costs little. `PARSED` contains the commands that are only parsed, with the reason;
`LONG`, those that only `make test-long` runs.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from test_documents import parse
from typer import _click as click

from support.documents import commands, current
from support.dyno_process import Home, short_suite
from support.places import ROOT, TESTS
from support.reference_servers import start_http

PARSED = {
    "fleet up": "needs the machines of a fleet: tests/fleet",
    "fleet status": "needs the machines of a fleet: tests/fleet",
    "fleet down": "needs the machines of a fleet: tests/fleet",
    "node": "needs a fleet: tests/fleet",
    "--fleet": "needs a fleet: tests/fleet",
    "--testbed": "needs root: tests/fleet",
    "--server": "needs root and Samba: tests/whole",
    "powercut": "needs root and a virtual machine: tests/run",
    "smb://": "needs a server of the reader's: tests/servers",
    "nfs://": "needs a server of the reader's: tests/servers",
    "objects": "needs a bucket of the reader's: tests/whole/test_objects.py",
    "open": "serves pages until Ctrl-C: tests/live",
    "--live": "serves pages until Ctrl-C: tests/live",
    "reference": "serves until Ctrl-C: tests/servers",
    "plans/": "takes minutes: test_long.py runs each plan that comes with Serverdyno",
    "resume": "needs an experiment that was interrupted: tests/faults, tests/whole",
}
"""Commands, or their first words, that are not run, with the reason."""
LONG = {"selftest", "--objective", "--until"}
"""Commands and options that take a minute or more."""
SHORTENED = {
    "load": ["--length", "1.25s", "--max-rate", "4000"],
    "bonnie": ["-s", "1"],
    "scenario": ["--scale", "0.01"],
}
"""Options added to a command; if an option is given twice, the last one counts."""
NAMES = {
    "servers": "nginx",
    "suite": "quick-web",
    "published": "2001-etesting-netware",
    "scenario": "metadata",
}
"""Replacement of NAME, by command."""
STATUSES = {"compare --fail-if-slower": {0, 1, 3}, "selftest": {0, 1}}
"""Allowed exit statuses of commands that report a result by them. All others must exit with 0."""


class Kind(NamedTuple):
    """A command, such as `plan check`, and its options."""

    name: str
    options: frozenset[str]

    def __str__(self) -> str:
        return " ".join([self.name, *sorted(self.options)])


KINDS_WITH_A_SECOND_WORD = {"plan", "suite", "workload", "published", "fleet"}


def kind_of(words: Sequence[str]) -> Kind:
    heads = words[: 2 if words[0] in KINDS_WITH_A_SECOND_WORD else 1]
    name = " ".join(word for word in heads if re.fullmatch("[a-z]+", word))
    return Kind(name, frozenset(word for word in words if word.startswith("-")))


def why_not(words: Sequence[str]) -> str | None:
    """Return why a command is only parsed, or None if it is run."""
    name = kind_of(words).name
    return next((why for what, why in PARSED.items() if what == name or _has(words, what)), None)


def _has(words: Sequence[str], what: str) -> bool:
    return (
        what in words
        if what.startswith("--")
        else "/" in what and any(each.startswith(what) for each in words)
    )


def is_complete(words: Sequence[str]) -> bool:
    """Return whether the command can be run: a bare command name, as in a sentence, may lack its arguments."""
    try:
        parse(words, is_whole=True)
    except click.exceptions.ClickException:
        return False
    return "..." not in " ".join(words)


def shown() -> dict[Kind, Sequence[str]]:
    found: dict[Kind, Sequence[str]] = {}
    for words in reversed([command.words for path in current() for command in commands(path)]):
        if why_not(words) is None and kind_of(words) not in found and is_complete(words):
            found[kind_of(words)] = words
    return found


RUN = shown()
IN_MINUTES = [kind for kind in RUN if LONG & {kind.name, *kind.options}]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    server = start_http({"/": b"x" * 1024}, http2=True)
    try:
        yield f"http://127.0.0.1:{server.port}/"
    finally:
        server.stop()


@pytest.fixture
def stand_ins(url: str, tmp_path: Path) -> dict[str, str]:
    """Return the replacement for each placeholder."""
    (tmp_path / "tree").mkdir()
    suite = short_suite(tmp_path / "short.toml", [1])
    suite.write_text(suite.read_text().replace("webbench-static", "url"))
    for name in ("plan", "before"):
        (tmp_path / f"{name}.toml").write_text(
            f'name = "{name}"\nsuite = "{suite}"\nrepetitions = 1\n'
            f'[[servers]]\nserver = "external"\nname = "mine"\nurl = "{url}"\n'
            "bounds = { max_clients = 9, max_rate_per_s = 1000, max_length_s = 9 }\n"
        )
    for name in ("closed", "closed-again"):
        shutil.copytree(TESTS / "data" / "corpus" / name, tmp_path / name)
    (session,) = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "sessions.md").read_text(), re.DOTALL)[:1]
    (tmp_path / "login.toml").write_text(session)
    plan, before = str(tmp_path / "plan.toml"), str(tmp_path / "before.toml")
    experiment = str(tmp_path / "closed")
    return {
        "URL": url,
        "http://127.0.0.1:8080/": url,
        "PLAN": plan,
        "plan.toml": plan,
        "access-log.toml": plan,
        "AFTER": plan,
        "NEW.toml": plan,
        "BEFORE": before,
        "OLD.toml": before,
        "EXPERIMENT": experiment,
        "$experiment": experiment,
        "OTHER": experiment,
        "DIR": str(tmp_path),
        "DIRECTORY": str(tmp_path / "tree"),
        "TARGET": str(tmp_path),
        "login.toml": str(tmp_path / "login.toml"),
        "audit.html": str(tmp_path / "audit.html"),
        "lab": str(tmp_path / "lab"),
        "HEAD": "127.0.0.1",
    }


def test_what_is_only_parsed_has_a_reason_that_still_applies() -> None:
    found = [command.words for path in current() for command in commands(path)]
    assert [what for what in PARSED if not any(why_not(words) == PARSED[what] for words in found)] == []


@pytest.mark.parametrize("kind", [kind for kind in RUN if kind not in IN_MINUTES], ids=str)
def test_a_command_of_the_documents_runs(
    kind: Kind, stand_ins: dict[str, str], home: Home, tmp_path: Path
) -> None:
    carry_out(kind, stand_ins, home, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("kind", IN_MINUTES, ids=str)
def test_a_long_command_of_the_documents_runs(
    kind: Kind, stand_ins: dict[str, str], home: Home, tmp_path: Path
) -> None:
    carry_out(kind, stand_ins, home, tmp_path)


def carry_out(kind: Kind, stand_ins: dict[str, str], home: Home, tmp_path: Path) -> None:
    command = kind.name.partition(" ")[0]
    known = stand_ins | {"NAME": NAMES.get(command, "")}
    if command == "compare":
        known["BEFORE"], known["AFTER"] = str(tmp_path / "closed-again"), str(tmp_path / "closed")
    if "--into" in kind.options:
        known["$experiment"] = str(tmp_path / "new")
    words = [known.get(word, word) for word in RUN[kind]]
    words += SHORTENED.get(command, []) if len(words) > 1 or command == "bonnie" else []
    if command in {"load", "run"} and "--into" not in kind.options:
        words += ["--into", str(tmp_path / "new")]
    done = home.here(*words)
    expected = STATUSES.get(str(kind), {0})
    assert done.returncode in expected, (words, done.stdout, done.stderr)
