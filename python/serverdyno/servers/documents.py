"""The document tree on disk, written once per machine and user, and checked at every use.

Every server serves the same files, read-only. The data plane defines the contents of the tree.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from serverdyno import _native
from serverdyno.errors import ServerError
from serverdyno.servers.local import make_private

DIGEST_CHARACTERS = 16


def document_root() -> Path:
    """Return the WebBench document tree, complete and readable by every user. It is kept for later experiments.

    The tree is written to a temporary directory, and renamed when it is complete. The check reads all 60 MB, which
    also loads them into the page cache. Raises ServerError.
    """
    cache = Path(tempfile.gettempdir()) / f"serverdyno-{os.geteuid()}"
    make_private(cache)
    tree = cache / f"tree-{_native.tree_facts()['digest'][:DIGEST_CHARACTERS]}"
    if _whole(tree):
        return tree
    try:
        _write(tree)
    except OSError as error:
        raise ServerError(
            f"can't write the document tree: {error}",
            hint="Set TMPDIR to a directory on another file system.",
        ) from error
    if problems := _native.tree_check(str(tree)):
        raise ServerError(
            f"the document tree {tree} is incomplete: {problems[0]}",
            hint="Check whether the disk is full or failing.",
        )
    return tree


def _whole(tree: Path) -> bool:
    return tree.is_dir() and not _native.tree_check(str(tree))


def _write(tree: Path) -> None:
    """Write the tree. Raises OSError."""
    draft = Path(tempfile.mkdtemp(prefix="draft-", dir=tree.parent))
    try:
        _native.tree_write(str(draft))
        for path in (draft, *draft.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        if not _whole(tree):  # another process may have written it meanwhile
            shutil.rmtree(tree, ignore_errors=True)
            draft.rename(tree)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
