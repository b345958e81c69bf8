"""The modules that a command imports before it works: only those that it needs, and not too many in total.

No time is measured: start-up consists of imports, which a test can count even on a busy machine.
"""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from support.dyno_process import PATIENCE_S, Home
from support.places import ROOT

IMPORTED = re.compile(r"^import time: +\d+ \| +\d+ \| +(\S+)$", re.MULTILINE)
ALWAYS_TOO_MUCH = {
    *("numpy", "scipy", "pyarrow", "dask", "distributed", "cryptography", "jinja2", "jsonschema"),
    *("typst", "starlette", "uvicorn", "ssl", "asyncio"),
    *("serverdyno.analysis.improvement", "serverdyno.published", "serverdyno.report"),
}
OF_RUNS = {"serverdyno.store", "serverdyno.fleet.fleet", "serverdyno.run.run"}
OF_SERVERS = {"psutil", "serverdyno.servers"}
OF_HELP = {"rich", "serverdyno._native", "serverdyno.plan.protocols"} | OF_SERVERS | OF_RUNS
OTHER_DRIVERS = {"serverdyno.servers.nginx", "serverdyno.servers.samba", "serverdyno.servers.team"}


def command_of(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-X", "importtime", "-m", "serverdyno", *map(str, arguments)]


def check(report: str, too_much: set[str], most: int) -> None:
    """Check the modules in `report`, the interpreter's list; `most` is a tenth more than Python 3.11 imports."""
    imported = set(IMPORTED.findall(report))
    assert "serverdyno._native" in imported or "serverdyno.cli" in imported
    unwanted = ALWAYS_TOO_MUCH | too_much
    assert sorted(unwanted & imported) == []
    assert len(imported) <= most, (len(imported), sorted(imported))


@pytest.mark.parametrize(
    ("arguments", "too_much", "most"),
    [
        (["--help"], OF_HELP | {"pydantic"}, 195),
        (["load", "--help"], {"rich"} | OF_SERVERS | OF_RUNS, 345),
        (["plan", "check", ROOT / "plans" / "quick-web.toml"], OF_RUNS | OTHER_DRIVERS, 440),
        (["servers"], OF_RUNS | {"serverdyno.analysis"}, 430),
        (["list", "."], OF_SERVERS | {"serverdyno.fleet", "serverdyno.run"}, 400),
        (["reference", "http", "--list-faults"], {"rich", "psutil"} | OTHER_DRIVERS | OF_RUNS, 330),
    ],
    ids=lambda value: " ".join(map(str, value[:2])) if isinstance(value, list) else "",
)
def test_a_command_imports_only_what_it_needs(
    home: Home, tmp_path: Path, arguments: list[str | Path], too_much: set[str], most: int
) -> None:
    done = subprocess.run(
        command_of(*arguments),
        env=home.environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    check(done.stderr, too_much, most)


def test_load_imports_only_what_it_needs_before_its_first_packet(home: Home, tmp_path: Path) -> None:
    told = tmp_path / "imports"
    with socket.create_server(("127.0.0.1", 0)) as listening, told.open("w") as report:
        listening.settimeout(PATIENCE_S)
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        with subprocess.Popen(
            command_of("load", url, "--into", tmp_path / "e"),
            env=home.environment,
            stdout=subprocess.DEVNULL,
            stderr=report,
        ) as load:
            try:
                with listening.accept()[0]:
                    imported = told.read_text()
            finally:
                load.send_signal(signal.SIGINT)
    check(imported, {*OTHER_DRIVERS}, 520)


def test_a_generator_process_imports_no_dask_and_makes_no_certificates(home: Home) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "import serverdyno.fleet.worker"],
        env=home.environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    check(
        done.stderr,
        {"pydantic", "rich", "serverdyno.servers", "serverdyno.plan", "serverdyno.fleet.folder"},
        165,
    )
