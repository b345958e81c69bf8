"""Banned phrases do not return, and each term of the glossary is used as explained there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from support.places import ROOT

PACKAGE = ROOT / "python" / "serverdyno"
GLOSSARY = ROOT / "docs" / "glossary.md"
BANNED = (
    r"(?<!-)\bbeside\b(?!-|$)",
    r"\btold apart\b",
    r"\bundue\b",
    r"\bwhat became of\b",
    r"\b(?:was|were|been|be) seen\b",
    r"(?<!\w)Seen[,:]",
    r"\bis none of\b",
    r"\bby so much later\b",
)
"""Regular expressions of phrases that no sentence for a reader may contain."""


@cache
def sentences(path: Path) -> tuple[tuple[int, str], ...]:
    """Return the strings of a module that are not docstrings, with their line numbers."""
    return tuple(_sentences(path))


def _sentences(path: Path) -> Iterator[tuple[int, str]]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {
        id(statement.value)
        for node in ast.walk(tree)
        if isinstance(body := getattr(node, "body", None), list)
        for statement in body
        if isinstance(statement, ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def pages() -> list[Path]:
    """Return the documents that are not generated."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *PACKAGE.glob("published/*/meta.toml")])


@pytest.mark.parametrize("phrase", BANNED)
def test_no_sentence_for_a_reader_has_a_banned_phrase(phrase: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text[:80]}"
        for path in modules()
        for line, text in sentences(path)
        if re.search(phrase, text)
    ]
    found += [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in pages()
        if path.name != "CHANGELOG.md"
        for match in re.finditer(phrase, path.read_text(encoding="utf-8"))
    ]
    assert found == []


USED_OTHERWISE = {
    "average": r"\boverall mean\b|\bmean of means\b",
    "baseline": r"\bbase line\b",
    "interval": r"\bconfidence (?:band|range)\b",
    "generator-limited": r"\bgenerator-bound\b",
    "load level": r"\bload step\b|\bload point\b|(?<![-\w])(?<!disk )(?<!figures )mix(?:es)?\b(?! of operations)",
    "p50, p99": r"\b(?:50th|99th) percentile\b|\bP99\b",
    "repetition": r"\breplicates?\b|\biterations?\b",
    "response time": r"\bresponse latency\b",
    "throughput": r"\bthru-?put\b|\bbandwidth used\b",
    "window": r"\bmeasurement period\b|\bmeasuring interval\b",
}
"""Other words for a term of the glossary; two words for one thing read as two things."""


def terms() -> dict[str, str]:
    """Return each term of the glossary with its meaning."""
    rows = re.findall(r"^\| ([^|]+?) \| ([^|]+?) \|$", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE)
    return dict(row for row in rows if row[0] != "term")


def test_the_glossary_is_sorted_and_each_of_its_terms_is_one_that_reports_use() -> None:
    found = terms()
    assert list(found) == sorted(found, key=str.casefold)
    assert len(found) >= 25
    spoken = " ".join(text for path in modules() for _, text in sentences(path)).lower()
    spoken += (PACKAGE / "plan" / "protocols" / "work.py").read_text(encoding="utf-8").lower()
    unused = [
        term for term in found if not all(part in spoken for part in term.replace(" by kind", "").split(", "))
    ]
    assert unused == []


@pytest.mark.parametrize(("term", "other_words"), USED_OTHERWISE.items())
def test_a_term_of_the_glossary_has_no_second_name(term: str, other_words: str) -> None:
    assert term in terms()
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text[:80]}"
        for path in modules()
        for line, text in sentences(path)
        if re.search(other_words, text)
    ]
    assert found == []


def test_explanations_of_the_glossary_have_no_banned_phrase_and_short_sentences() -> None:
    for term, meaning in terms().items():
        assert not any(re.search(phrase, meaning) for phrase in BANNED), term
        assert all(len(sentence.split()) <= 25 for sentence in re.split(r"[.:] ", meaning)), term


def _names(node: ast.AST) -> set[str]:
    """Return the names that the statements of a module or a function bind, without those of functions inside it."""
    found = (
        {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
        if hasattr(node, "args")
        else set()
    )
    pending = [*ast.iter_child_nodes(node)]
    while pending:
        each = pending.pop()
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            found.add(each.id)
        if isinstance(each, ast.alias):
            found.add((each.asname or each.name).partition(".")[0])
        if not isinstance(each, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            pending += ast.iter_child_nodes(each)
    return found


def _unfilled(node: ast.AST, names: set[str]) -> Iterator[tuple[int, str]]:
    """Yield each text with a placeholder for a name in scope that is not part of an f-string, with its line."""
    if isinstance(node, ast.Module | ast.FunctionDef | ast.Lambda):
        names = names | _names(node)
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Constant) and isinstance(child.value, str):
            found = re.findall(r"(?<!\{)\{([A-Za-z_]\w*)(?:\.\w+)*\}(?!\})", child.value)
            if not isinstance(node, ast.Expr) and set(found) & names:
                yield child.lineno, child.value
        yield from _unfilled(child, names)


def test_no_text_shows_a_placeholder_that_an_f_string_was_to_fill() -> None:
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in modules()}
    assert [(f"{path}", *found) for path, tree in trees.items() for found in _unfilled(tree, set())] == []
