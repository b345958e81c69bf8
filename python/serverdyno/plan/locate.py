"""Find the line of a key in the text of a TOML document, so that an error can name it.

`tomllib` reports no positions, so this module parses the document again, one statement at a time. Keys inside an
inline table and elements of an array have the line on which their statement begins.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

KeyPath = tuple[str | int, ...]
MOST_READ = 2_000_000
"""Maximum number of characters to parse, summed over all attempts to parse a statement."""


def key_lines(text: str) -> dict[KeyPath, int]:
    """Return the line, from 1, where each key, table and array element of a valid TOML document first appears."""
    lines: dict[KeyPath, int] = {}
    table: KeyPath = ()
    last_index: dict[KeyPath, int] = {}
    for line, statement in _statements(text):
        document = tomllib.loads(statement)
        if statement.lstrip().startswith("["):
            table = _table_path(document, last_index, opens_element=statement.lstrip().startswith("[["))
            for depth in range(1, len(table) + 1):
                lines.setdefault(table[:depth], line)
        else:
            for path in _paths(document):
                lines.setdefault(table + path, line)
    return lines


def line_of(lines: dict[KeyPath, int], path: KeyPath) -> int | None:
    """Return the line of `path` or of its nearest parent in the text; None if no part of the path has a line."""
    while path:
        if path in lines:
            return lines[path]
        path = path[:-1]
    return None


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Yield every `key = value` and every table header, with its line.

    A statement ends at the first line end where it is valid TOML: line ends occur only between statements, inside
    brackets and inside multi-line strings, and an unclosed bracket or string is invalid. Each further line of a
    statement requires another attempt to parse the statement. So reading stops after MOST_READ characters, and later
    statements have no line.
    """
    pending = ""
    read = 0
    first_line = 0
    for number, line in enumerate(text.split("\n"), start=1):
        if not pending:
            first_line = number
            if not line.strip() or line.lstrip().startswith("#"):
                continue
        pending += line + "\n"
        read += len(pending)
        if read > MOST_READ:
            return
        if _is_valid(pending):
            yield first_line, pending
            pending = ""


def _is_valid(statement: str) -> bool:
    try:
        tomllib.loads(statement)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _table_path(document: dict[str, Any], last_index: dict[KeyPath, int], *, opens_element: bool) -> KeyPath:
    """Return the path of the table that a header opens. The name of an array of tables refers to its last element."""
    path: KeyPath = ()
    node: Any = document
    while isinstance(node, dict) and node:
        ((name, node),) = node.items()
        path = (*path, name)
        if isinstance(node, list) and opens_element:
            last_index[path] = last_index.get(path, -1) + 1
        if path in last_index:
            path = (*path, last_index[path])
    return path


def _paths(node: Any) -> Iterator[KeyPath]:
    """Yield every path below `node`, parents first."""
    children: list[tuple[str | int, Any]] = []
    if isinstance(node, dict):
        children = list(node.items())
    elif isinstance(node, list):
        children = list(enumerate(node))
    for key, child in children:
        yield (key,)
        for path in _paths(child):
            yield (key, *path)
