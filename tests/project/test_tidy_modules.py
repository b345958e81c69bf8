"""The repository's own rules on modules, executed: no import cycle inside a crate or a package.

`test_tidy.py` checks imports between crates and packages.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from support.places import ROOT

PACKAGE = ROOT / "python" / "serverdyno"
CRATES = sorted(path.parent.name for path in (ROOT / "crates").glob("*/Cargo.toml"))
PACKAGES = sorted(path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists())

Graph = dict[str, set[str]]
# A module's path: the names of its enclosing modules, outermost first, and its own.
Module = tuple[str, ...]


def circle(graph: Graph) -> list[str]:
    """Return an import cycle, or an empty list."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def rust_code(path: Path) -> str:
    """Return the source without its tests and comments."""
    text = path.read_text(encoding="utf-8").split("#[cfg(test)]\nmod tests", maxsplit=1)[0]
    return re.sub(r"//.*", "", text)


def use_trees(text: str, at: int) -> tuple[list[Module], int]:
    """Return the paths of the use tree that begins at `at`, as in `a::{b::C, d}`, and the position of its end."""
    match = re.compile(r"\s*(\{|\w+)").match(text, at)
    if match is None:
        return [()], at
    at = match.end()
    if match[1] != "{":
        if not text.startswith("::", at):
            return [(match[1],)], at
        rests, at = use_trees(text, at + 2)
        return [(match[1], *rest) for rest in rests], at
    paths: list[Module] = []
    while at < len(text) and text[at] != "}":
        found, at = use_trees(text, at)
        paths += found
        end = re.compile(r"[^,}]*,?\s*").match(text, at)
        at = end.end() if end else at + 1
    return paths, at + 1


def references(code: str, module: Module, is_directory: bool) -> Iterator[Module]:
    """Yield the paths in the crate that a file refers to, from the crate's root."""
    parent = module if is_directory else module[:-1]
    for match in re.finditer(r"\b(crate|self|(?:super::)*super)::", code):
        ups = match[1].count("super")
        base = {"crate": (), "self": module}.get(match[1], module[: len(module) - ups])
        for path in use_trees(code, match.end())[0]:
            yield (*base, *path)
    for match in re.finditer(r"^\s*pub(?:\(\w+\))? use (?!crate|super|self)", code, re.MULTILINE):
        for path in use_trees(code, match.end())[0]:
            yield (*parent, *path)


def graphs_of_crate(source: Path) -> dict[Module, Graph]:
    """Return which modules use which, for each module that has modules of its own (`()` for the crate).

    A re-exported name counts for the module that exports it. Uses of the parent's own items do not count.
    """
    files = {}
    for path in sorted(source.rglob("*.rs")):
        parts = path.relative_to(source).with_suffix("").parts
        files[parts[:-1] if parts[-1] in ("mod", "lib") else parts] = path
    code = {module: rust_code(path) for module, path in files.items()}
    named = {
        module: set(references(text, module, files[module].name in ("mod.rs", "lib.rs")))
        for module, text in code.items()
    }
    exported = {
        (module, path[-1]): path[:-1]
        for module, text in code.items()
        for line in re.findall(r"^\s*pub(?:\(\w+\))? use [^;]*;", text, re.MULTILINE)
        for path in references(line, module, is_directory=True)
        if path
    }

    def home(path: Module) -> Module:
        found: Module = ()
        for name in path:
            if (*found, name) in files:
                found = (*found, name)
            elif (found, name) in exported and exported[found, name] != found:
                return home(exported[found, name])
            else:
                break
        return found

    graphs: dict[Module, Graph] = {}
    for module in files:
        for depth in range(len(module)):
            graphs.setdefault(module[:depth], {}).setdefault(module[depth], set())
        for used in {home(path) for path in named[module]}:
            same = 0
            while same < min(len(module), len(used)) and module[same] == used[same]:
                same += 1
            if same < len(module) and same < len(used):
                graphs[module[:same]][module[same]].add(used[same])
    return graphs


def graphs_of_package(package: Path) -> dict[Module, Graph]:
    """Return which modules import which at their top, for each package below this one (`()` for itself).

    Imports inside functions, which may avoid a cycle, and below `if TYPE_CHECKING` do not count.
    """
    files = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        files[parts[:-1] if parts[-1] == "__init__" else parts] = path
    graphs: dict[Module, Graph] = {}
    for module, path in files.items():
        for depth in range(len(module)):
            graphs.setdefault(module[:depth], {}).setdefault(module[depth], set())
        for used in imported(path, package.name):
            same = 0
            while same < min(len(module), len(used)) and module[same] == used[same]:
                same += 1
            if same < len(module) and used[: same + 1] in files:
                graphs[module[:same]][module[same]].add(used[same])
    return graphs


def imported(path: Path, package: str) -> Iterator[Module]:
    """Yield the modules of its own package that a module imports at its top, relative to the package."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            if name.startswith(f"serverdyno.{package}."):
                yield tuple(name.split(".")[2:])


@pytest.mark.parametrize("crate", CRATES)
def test_the_modules_of_a_crate_have_no_circle(crate: str) -> None:
    graphs = graphs_of_crate(ROOT / "crates" / crate / "src")
    assert {
        "::".join(module) or crate: circle(graph) for module, graph in graphs.items() if circle(graph)
    } == {}


@pytest.mark.parametrize("package", PACKAGES)
def test_the_modules_of_a_package_have_no_circle(package: str) -> None:
    graphs = graphs_of_package(PACKAGE / package)
    assert {
        ".".join(module) or package: circle(graph) for module, graph in graphs.items() if circle(graph)
    } == {}


def test_a_circle_is_found_however_it_is_imported(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name, text in {
        "lib.rs": "mod a;\npub mod b;\nmod c;\npub use c::{Third, Fourth};\n",
        "a.rs": "use crate::{b::{One, inner::Two}, Other};\n#[cfg(test)]\nmod tests { use crate::c; }\n",
        "b/mod.rs": "// use crate::a;\nmod inner;\nmod other;\nstruct One;",
        "b/inner.rs": "use crate::Third;\nuse super::One;\n",
        "b/other.rs": "use super::inner::{Two, Three};\n",
        "c.rs": "use std::fmt;\n",
    }.items():
        (tmp_path / name).write_text(text)
    graphs = graphs_of_crate(tmp_path)
    assert graphs == {
        (): {"a": {"b"}, "b": {"c"}, "c": set()},
        ("b",): {"inner": set(), "other": {"inner"}},
    }
    (tmp_path / "c.rs").write_text("fn f() { super::a::g() }\n")
    (tmp_path / "b" / "inner.rs").write_text("use crate::{b::{other}, Third};\n")
    graphs = graphs_of_crate(tmp_path)
    assert set(circle(graphs[()])) == {"a", "b", "c"}
    assert set(circle(graphs["b",])) == {"inner", "other"}


def test_a_circle_of_a_package_is_found_at_any_depth(tmp_path: Path) -> None:
    package = tmp_path / "p"
    (package / "b").mkdir(parents=True)
    for name, text in {
        "__init__.py": "from serverdyno.p.a import one",
        "a.py": "from serverdyno.p import c\ndef f():\n    from serverdyno.p.b import inner",
        "b/__init__.py": "",
        "b/inner.py": "from serverdyno.p.b.other import two\nimport serverdyno.p.a",
        "b/other.py": "from serverdyno.other import a",
        "c.py": "import os",
    }.items():
        (package / name).write_text(text)
    graphs = graphs_of_package(package)
    assert graphs == {
        (): {"a": {"c"}, "b": {"a"}, "c": set()},
        ("b",): {"inner": {"other"}, "other": set()},
    }
    (package / "c.py").write_text("from serverdyno.p.b.inner import f")
    (package / "b" / "other.py").write_text("from serverdyno.p.b import inner")
    graphs = graphs_of_package(package)
    assert set(circle(graphs[()])) == {"a", "b", "c"}
    assert set(circle(graphs["b",])) == {"inner", "other"}
