"""`dyno tree DIRECTORY`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command("tree", epilog="Example: dyno tree /srv/www")(tree)


def tree(
    directory: Annotated[Path, typer.Argument(help="The document root of your server; it must exist.")],
    check: Annotated[bool, typer.Option("--check", help="Only check an existing tree.")] = False,
) -> None:
    """Write the suites' documents below the document root of your own web server."""
    from serverdyno import _native  # noqa: PLC0415
    from serverdyno.cli.output import say, standard_output  # noqa: PLC0415
    from serverdyno.errors import UserError  # noqa: PLC0415

    if not directory.is_dir():
        raise UserError(f"{directory} is not a directory")
    facts = _native.tree_facts()
    if not check:
        try:
            _native.tree_write(str(directory))
        except OSError as error:
            raise UserError(f"the tree can't be written: {error}") from error
    if problems := _native.tree_check(str(directory)):
        raise UserError("\n".join([f"the tree below {directory} is not complete:", *problems]))
    say(
        standard_output(),
        f"{directory}/wbtree: {facts['files']:,} files, {facts['bytes']:,} bytes, digest {facts['digest']}",
    )
