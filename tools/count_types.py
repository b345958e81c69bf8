"""Count our own types that a figure passes on its way from a command to a sentence.

Run `python tools/count_types.py`. Each path below lists the functions that the figure passes, in order: down to a
system call, and up to the report. A type counts if it is defined in this repository and occurs in the signature of one
of these functions. The class of a method in the list also counts. A missing function is an error, so that the lists
follow the code.
"""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON, CRATES = ROOT / "python/serverdyno", ROOT / "crates"
COMMAND = (
    "cli/run.py:run",
    "plan/load.py:load_plan",
    "run/create.py:create_experiment",
    "cli/carry_out.py:carry_out_and_report",
    "run/experiment.py:carry_out",
    "run/experiment.py:run_all",
    "run/run.py:Run.carry_out",
    "run/under_test.py:under_test",
    "run/run.py:Run._run_level",
    "fleet/local.py:run_level",
    "fleet/document.py:level_document",
    "native/src/level.rs:prepare",
    "engine/src/spec.rs:LevelSpec::parse",
    "engine/src/prepared.rs:PreparedLevel::new",
    "engine/src/load.rs:Load::start",
    "engine/src/load.rs:run_engine_thread",
)
COUNT = (
    "engine/src/counting.rs:Tally::count",
    "engine/src/counting.rs:Tally::finish",
    "engine/src/load.rs:Load::result",
    "native/src/load.rs:Load::result",
    "counted.py:Counted.of",
    "run/record.py:level_record",
    "store/experiment.py:Experiment.write_level",
    "store/table.py:encode",
)
REPORT = (
    "store/experiment.py:Experiment.readable_levels",
    "report/build.py:build",
    "report/build.py:source_of",
    "report/build.py:build_from",
    "report/figures/results.py:compute",
    "report/figures/results.py:_configuration",
    "report/figures/results.py:_level",
)
VIEW = ("report/views/text.py:render",)
PATHS = {
    "the throughput of a web server at its peak": (
        *COMMAND,
        "engine/src/client.rs:ClientThread::run",
        "engine/src/web/client.rs:Web::perform",
        "http/src/connection.rs:Connection::exchange",
        *COUNT,
        *REPORT,
        "report/subjects/peaks.py:build",
        "report/subjects/peaks.py:_peak_finding",
        *VIEW,
    ),
    "the throughput of a file server at its peak": (
        *COMMAND,
        "engine/src/files/client_task.rs:ClientTask::run",
        "engine/src/client.rs:ClientThread::run",
        "engine/src/files/client.rs:FilesClient::perform",
        "files/src/cache.rs:Cache::call",
        "files/src/counted.rs:Counted::call_at_once",
        "smb/src/session/mod.rs:Session::begin_call",
        *COUNT,
        *REPORT,
        "report/subjects/peaks.py:build",
        "report/subjects/peaks.py:_peak_finding",
        *VIEW,
    ),
}
RUST_TYPE = re.compile(r"^\s*(?:pub(?:\([a-z]+\))? )?(?:struct|enum|trait|type|union) (\w+)", re.MULTILINE)
WORD = re.compile(r"[A-Za-z_]\w*")


@cache
def own_types(suffix: str) -> frozenset[str]:
    """Return the names of all types defined in the product's Rust or Python."""
    if suffix == ".rs":
        files = CRATES.glob("*/src/**/*.rs")
        return frozenset(name for path in files for name in RUST_TYPE.findall(path.read_text()))
    trees = [ast.parse(path.read_text()) for path in PYTHON.rglob("*.py")]
    return frozenset(node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def types_of(hop: str) -> list[str]:
    """Return our own types in the signature of a function, `FILE:NAME`, in order. Raises LookupError."""
    file, name = hop.split(":", 1)
    suffix = Path(file).suffix
    words = _of_python(PYTHON / file, name) if suffix == ".py" else _of_rust(CRATES / file, name)
    return list(dict.fromkeys(word for word in words if word in own_types(suffix)))


def _of_python(path: Path, name: str) -> list[str]:
    owner, _, function = name.rpartition(".")
    body: list[ast.stmt] = ast.parse(path.read_text()).body
    if owner:
        body = next((node.body for node in body if isinstance(node, ast.ClassDef) and node.name == owner), [])
    for node in body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            hints = [argument.annotation for argument in arguments] + [node.returns]
            return [owner, *(word for hint in hints if hint is not None for word in _names(hint))]
    raise LookupError(f"{path.relative_to(ROOT)} has no {name}")


def _names(hint: ast.expr) -> list[str]:
    """Return the names in an annotation; for `Annotated`, only the names in the type."""
    if isinstance(hint, ast.Subscript) and ast.unparse(hint.value) == "Annotated":
        hint = hint.slice.elts[0] if isinstance(hint.slice, ast.Tuple) else hint.slice
    return WORD.findall(ast.unparse(hint))


def _of_rust(path: Path, name: str) -> list[str]:
    owner, _, function = name.rpartition("::")
    text = path.read_text()
    for begin in re.finditer(
        rf"^(?:impl|trait)\b[^{{;]*\b{owner}\b[^{{;]*{{" if owner else r"\A", text, re.MULTILINE
    ):
        block = text[begin.end() :].partition("\n}\n")[0] if owner else text
        if found := re.search(rf"\bfn {function}\b[^{{;]*", block):
            return [owner, *WORD.findall(found[0])]
    raise LookupError(f"{path.relative_to(ROOT)} has no {name}")


def main() -> None:
    """Print the functions of each path with the types that each one adds, and the number of types."""
    for title, path in PATHS.items():
        met: list[str] = []
        print(f"{title}:")
        for hop in path:
            try:
                new = [name for name in types_of(hop) if name not in met]
            except LookupError as error:
                sys.exit(f"tools/count_types.py: {error}: change its lists")
            met += new
            print(f"  {hop:62} {' '.join(new)}")
        print(f"  {len(met)} types of our own\n")


if __name__ == "__main__":
    main()
