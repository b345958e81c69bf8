"""Print every text of the project that a person reads, with its location: `python tools/catalogue.py [KIND...]`.

Kinds: `message` (errors, hints, help, settings), `report` (sentences of reports and of the terminal), `docstring`
(Python and Rust), `comment`. `--sample N --seed S` draws N texts of each kind; the same seed draws the same texts.
{...} stands for a value that a program inserts into a sentence.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "python" / "serverdyno"
KINDS = ("message", "report", "docstring", "comment")
FEWEST_WORDS = 4
"""Minimum number of words in a text; shorter ones are names or units."""
RUST_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
RUST_TESTS = re.compile(r"^#\[cfg\(test\)\]$", re.MULTILINE)

Text = tuple[str, str, int, str]
"""Kind, file, line and words."""


def texts() -> Iterator[Text]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield from _of_python(path)
    for path in sorted((ROOT / "crates").glob("*/src/**/*.rs")):
        if "tests" not in path.parts and path.stem != "tests":
            yield from _of_rust(path)


def _of_python(path: Path) -> Iterator[Text]:
    source, name = path.read_text(encoding="utf-8"), str(path.relative_to(ROOT))
    tree = ast.parse(source)
    kind = "report" if "report" in path.relative_to(PACKAGE).parts else "message"
    skipped = set[int]()
    for node in ast.walk(tree):
        for statement in (
            getattr(node, "body", None) or [] if not isinstance(node, ast.Lambda | ast.IfExp) else []
        ):
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                skipped.add(id(statement.value))
                yield "docstring", name, statement.lineno, _plain(str(statement.value.value))
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped.update(id(part) for part in ast.walk(node) if part is not node)
    for node in ast.walk(tree):
        if id(node) not in skipped and (said := _said(node)):
            yield kind, name, node.lineno, _plain(said)  # type: ignore[attr-defined]  # both kinds have a line
    yield from _comments(source, name, "#")


def _said(node: ast.AST) -> str:
    """Return the words of a string, or of an f-string."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{...}" for part in node.values)
    return ""


def _of_rust(path: Path) -> Iterator[Text]:
    source, name = RUST_TESTS.split(path.read_text(encoding="utf-8"))[0], str(path.relative_to(ROOT))
    code = re.sub(r"^\s*//.*$", "", source, flags=re.MULTILINE).replace(
        "'\"'", "' '"
    )  # a single character is not a text
    for match in RUST_TEXT.finditer(code):
        words = re.sub(r"\\\n\s*", "", match[1])
        yield (
            "message",
            name,
            code.count("\n", 0, match.start()) + 1,
            _plain(re.sub(r"\{[^}]*\}", "{...}", words)),
        )
    yield from _comments(source, name, "///", "docstring")
    yield from _comments(source, name, "//!", "docstring")
    yield from _comments(source, name, "//")


def _comments(source: str, name: str, mark: str, kind: str = "comment") -> Iterator[Text]:
    """Yield blocks of comment lines that begin with `mark`. Lines with a longer mark, such as ///, are left out."""
    block: list[str] = []
    for number, line in enumerate([*source.splitlines(), ""], 1):
        found = re.match(rf"\s*{re.escape(mark)}(?![/!#])\s?(.*)", line)
        if found:
            block.append(found[1])
        elif block:
            yield kind, name, number - len(block), _plain(" ".join(block))
            block = []


def _plain(text: str) -> str:
    return " ".join(text.split())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", help=f"of {', '.join(KINDS)}; all by default")
    parser.add_argument("--sample", type=int, default=0, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="S")
    asked = parser.parse_args()
    wanted = [each for each in KINDS if not asked.kinds or each in asked.kinds]
    found = [
        each
        for each in texts()
        if each[0] in wanted and len(re.findall(r"[A-Za-z]{2,}", each[3])) >= FEWEST_WORDS
    ]
    for kind in wanted:
        of_kind = [each for each in found if each[0] == kind]
        if asked.sample:
            of_kind = random.Random(asked.seed).sample(of_kind, min(asked.sample, len(of_kind)))
        for _, name, line, words in of_kind:
            print(f"{kind}\t{name}:{line}\t{words}")


if __name__ == "__main__":
    main()
