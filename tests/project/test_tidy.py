"""The repository's own rules, executed: import arrows, sizes, module headers, published data that loads.

The lists of exceptions are ratchets: they may only get shorter.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.places import ROOT

PACKAGE = ROOT / "python" / "serverdyno"
CRATES = ROOT / "crates"

MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 70
LONG_FUNCTIONS: set[str] = set()

# Our packages that each part may import; everything may import `COMMON` and the part itself. A package with a dot has
# arrows of its own: server drivers may import protocols, but not plans.
ARROWS = {
    "analysis": set(),
    "plan.protocols": {"_native"},
    "plan": {"plan.protocols", "plan.suites", "_native"},
    "plan.suites": {"plan"},
    "store": {"plan", "plan.protocols", "_native"},
    "probes": {"plan", "_native"},
    "servers": {"plan.protocols", "probes", "_native"},
    "fleet": {"plan", "plan.protocols", "probes", "servers", "_native"},
    "fleet.testbed": {"plan", "fleet"},
    "published": {"plan"},
    "run": {"plan", "plan.protocols", "fleet", "fleet.testbed", "probes", "servers", "store", "_native"},
    "report": {"analysis", "plan", "plan.protocols", "published", "store", "_native"},
    "live": {"plan", "run", "store", "_native"},
    "cli": {
        "analysis",
        "fleet",
        "live",
        "plan",
        "plan.protocols",
        "plan.suites",
        "probes",
        "published",
        "report",
        "run",
        "servers",
        "store",
        "_native",
    },
}
# The parts of `report` in the order in which a report is built: each may import those before it.
ROOMS = ("figures", "subjects", "views")
COMMON = {"clean", "counted", "errors", "interrupts", "lazy", "units", "wording", "__init__"}

CRATE_ARROWS = {
    "measure": set(),
    "workload": set(),
    "page": set(),
    "net": {"measure"},
    "http": {"measure", "net"},
    "files": {"measure", "net", "workload"},
    "smb": {"measure", "net", "files"},
    "nfs": {"measure", "net", "files"},
    "s3": {"measure", "net", "http"},
    "engine": {"measure", "net", "http", "files", "smb", "nfs", "s3", "workload", "page"},
    "testserver": {"measure", "net", "files", "smb", "nfs", "workload", "page"},
    "native": {"measure", "net", "http", "files", "smb", "workload", "page", "engine", "testserver"},
}


def tracked(*patterns: str) -> list[Path]:
    """Return the files of the repository, including files not yet added."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [path for name in listed.splitlines() if (path := ROOT / name).exists()]


def part_of(name: str) -> str:
    """Return the part that a module belongs to: the closest package with import arrows of its own."""
    names = name.split(".")[1:]
    inner = ".".join(names[:2])
    return inner if inner in ARROWS else names[0]


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            if name.startswith("serverdyno."):
                yield part_of(name)


@pytest.mark.parametrize("part", sorted(ARROWS))
def test_a_part_imports_only_what_its_arrows_allow(part: str) -> None:
    known = {path.stem for path in PACKAGE.iterdir()} | set(ARROWS)
    for path in sorted(PACKAGE.joinpath(*part.split(".")).rglob("*.py")):
        module = ".".join(("serverdyno", *path.relative_to(PACKAGE).with_suffix("").parts))
        if part_of(module) == part:
            found = {name for name in imports(path) if name in known}
            assert found <= ARROWS[part] | COMMON | {part}, path


def test_a_room_of_the_report_imports_only_rooms_before_it() -> None:
    for place, room in enumerate(ROOMS):
        later = tuple(f"serverdyno.report.{name}" for name in ROOMS[place + 1 :])
        for path in sorted((PACKAGE / "report" / room).glob("*.py")):
            assert not [name for name in module_imports(path) if name.startswith(later)], path


def module_imports(path: Path) -> set[str]:
    """Return our modules that a module imports at its top, except those imported only for type checking."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("serverdyno"):
            for alias in node.names:
                file = PACKAGE.parent.joinpath(*node.module.split("."), f"{alias.name}.py")
                package = file.with_suffix("") / "__init__.py"
                inner = file.exists() or package.exists()
                found.add(f"{node.module}.{alias.name}" if inner else node.module)
    return found


def test_every_part_of_the_package_has_its_arrows() -> None:
    parts = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert parts == {part for part in ARROWS if "." not in part}


@pytest.mark.parametrize("crate", sorted(CRATE_ARROWS))
def test_a_crate_depends_only_on_what_its_arrows_allow(crate: str) -> None:
    manifest = tomllib.loads((CRATES / crate / "Cargo.toml").read_text(encoding="utf-8"))
    found = {
        name.removeprefix("dyno-") for name in manifest.get("dependencies", {}) if name.startswith("dyno-")
    }
    assert found <= CRATE_ARROWS[crate]


def test_every_crate_has_its_arrows() -> None:
    assert {path.parent.name for path in CRATES.glob("*/Cargo.toml")} == set(CRATE_ARROWS)


def test_all_crates_are_tested_with_the_same_checks() -> None:
    # These checks are not the default, because tests share the native module's build of the dependencies, which has
    # none.
    profile = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["profile"]["bench"]
    checked = {"opt-level": 0, "debug-assertions": True, "overflow-checks": True}
    assert profile == {"package": {f"dyno-{crate}": checked for crate in CRATE_ARROWS}}


def test_documentation_is_compiled_in_the_crates_that_show_code_in_it() -> None:
    # It is switched off in all other crates, because searching documentation for code takes as long as checking the
    # crate.
    for crate in CRATES.iterdir():
        library = tomllib.loads((crate / "Cargo.toml").read_text(encoding="utf-8")).get("lib", {})
        compiled = library.get("doctest", "crate-type" not in library)
        assert compiled == any(
            "```" in path.read_text(encoding="utf-8") for path in crate.rglob("src/**/*.rs")
        ), crate


def test_every_source_file_says_what_it_is_for() -> None:
    for path in tracked("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not text or ast.get_docstring(ast.parse(text)), path
    for path in tracked("crates/*.rs", "fuzz/*.rs"):
        lines = (line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#!["))
        assert next(lines).startswith("//!"), path


def test_no_source_file_is_longer_than_a_reader_can_hold() -> None:
    for path in tracked("*.py", "*.rs"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_FILE_LINES, path


def python_functions(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield node.name, node.end_lineno - node.lineno + 1


def rust_functions(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the name and length of each function, which ends at the first `}` indented like its `fn` (rustfmt)."""
    name, indent, start = "", "", 0
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
        if match := re.match(r"(\s*)(?:pub(?:\(\w+\))? )?(?:const )?(?:async )?fn (\w+)", line):
            indent, name, start = match[1], match[2], number
        elif name and line == f"{indent}}}":
            yield name, number - start + 1
            name = ""


def test_no_function_is_longer_than_a_screen() -> None:
    found = set()
    for path in tracked("*.py", "*.rs"):
        functions = python_functions(path) if path.suffix == ".py" else rust_functions(path)
        found |= {
            f"{path.relative_to(ROOT)}:{name}" for name, lines in functions if lines > MAX_FUNCTION_LINES
        }
    assert found <= LONG_FUNCTIONS, "shorten them"
    assert found == LONG_FUNCTIONS, "tighten the ratchet: remove what is short enough now"


# A protocol may be named in its own module, and in what starts, checks or serves only it.
PROTOCOL_BRANCH = re.compile(
    r"""[=!]= "(http|smb|nfs)"|(Smb|Nfs)Target|is (not )?WEB\b|isinstance\([^)]*Target"""
)
NAMES_A_PROTOCOL: set[str] = set()


def test_no_file_but_the_protocols_own_asks_which_protocol_it_is() -> None:
    found = {
        f"{path.relative_to(ROOT)}"
        for path in tracked("python/*.py")
        if path.parent != PACKAGE / "plan" / "protocols"
        and PROTOCOL_BRANCH.search(path.read_text(encoding="utf-8"))
    }
    assert found <= NAMES_A_PROTOCOL, "ask the protocol's module: python/serverdyno/plan/protocols"
    assert found == NAMES_A_PROTOCOL, "tighten the ratchet: remove what names none now"


@pytest.mark.parametrize("tool", ["plan_reference", "complete_documents", "records"])
def test_what_a_tool_generates_is_what_it_would_write_now(tool: str) -> None:
    made = subprocess.run(
        [sys.executable, f"tools/{tool}.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert made.returncode == 0, f"run: python tools/{tool}.py\n{made.stderr}"
