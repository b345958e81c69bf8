"""The documents: `dyno` has each command in them, each link has a target, and the site is complete."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer import _click as click
from typer.main import get_command

from serverdyno import cli
from support.documents import commands, current, documents
from support.dyno_process import Home
from support.places import ROOT

ACT_AT_ONCE = {"--install-completion", "--show-completion", "--version", "--help"}
"""Options that do something while they are parsed."""
FETCHED = re.compile(r"""<(?:script|link|img)\b[^>]*\b(?:src|href)=["']?(?:https?:)?//""")


def parse(words: Sequence[str], *, is_whole: bool) -> None:
    """Raise ClickException if the command line refuses the words; a bare command name may lack its arguments."""
    command: Any = get_command(cli.app)
    context, name, rest = None, "dyno", [word for word in words if word not in ACT_AT_ONCE]
    while True:
        try:
            context = command.make_context(name, rest, parent=context)
        except (click.exceptions.MissingParameter, click.exceptions.NoArgsIsHelpError):
            if is_whole:
                raise
            return
        rest = [*getattr(context, "_protected_args", []), *context.args]
        if not rest or not hasattr(command, "commands"):
            return
        name, command, rest = command.resolve_command(context, rest)


@pytest.mark.parametrize("path", current(), ids=lambda path: str(path.relative_to(ROOT)))
def test_each_command_of_a_document_is_one_that_the_command_line_takes(path: Path) -> None:
    refused = []
    for place, words, is_whole in commands(path):
        try:
            parse(words, is_whole=is_whole)
        except click.exceptions.ClickException as error:
            refused.append(f"{place}: dyno {shlex.join(words)}: {error.format_message()}")
    assert refused == []


def test_commands_are_found_where_documents_show_them() -> None:
    found = [shown for path in current() for shown in commands(path)]
    assert sum(shown.is_whole for shown in found) > 35
    assert {"load", "run", "scenario", "fleet"} <= {shown.words[0] for shown in found}
    with pytest.raises(click.exceptions.ClickException):
        parse(["load", "--no-such-option"], is_whole=False)


@pytest.mark.parametrize("path", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_each_link_of_a_document_to_a_file_leads_to_one(path: Path) -> None:
    text = re.sub(
        r"^```.*?^```|`[^`\n]*`", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    targets = re.findall(r"\]\((?![a-z]+:|#)([^)#\s]+)", text)
    assert [target for target in targets if not (path.parent / target).exists()] == []


@pytest.mark.parametrize("page", ["README.md", "docs/tour.md", "docs/dynamic.md", "docs/write-a-suite.md"])
def test_a_plan_of_a_document_has_no_problem(page: str, home: Home, tmp_path: Path) -> None:
    blocks = re.findall(r"```toml\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    for suite in (block for block in blocks if "\nworkload = " in block):
        (tmp_path / "search.toml").write_text(suite)
    plans = [block for block in blocks if re.match(r"name = .*\nsuite = ", block)]
    assert plans
    for plan in plans:
        (tmp_path / "plan.toml").write_text(plan)
        checked = home.here("plan", "check", tmp_path / "plan.toml")
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_page_on_methods_names_every_kind_of_error() -> None:
    source = (ROOT / "crates" / "measure" / "src" / "fault.rs").read_text(encoding="utf-8")
    kinds = re.findall(r'^        [A-Z]\w+ "([a-z0-9_]+)"', source, re.MULTILINE)
    assert len(kinds) > 50
    page = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
    sides = {"server", "network", "client", "check"}
    assert [kind for kind in kinds if f"`{kind}`" not in page and kind not in sides] == []


def test_the_site_has_every_page_no_broken_link_and_nothing_from_other_hosts(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")} | {
        "overview",
        "architecture",
        "contributing",
    }
    assert pages <= {page.stem for page in tmp_path.glob("*.html")}
    assert (tmp_path / "example" / "report.html").exists()
    for page in tmp_path.glob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert FETCHED.search(text) is None, page
        for path in re.findall(r'href="../../([^"#]+)', text):  # from target/site into the checkout
            assert (ROOT / path).exists(), (page, path)
