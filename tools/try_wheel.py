"""Test a wheel as users install it: in an empty environment, without a compiler on the path, against a real server.

`make wheel` runs `python tools/try_wheel.py WHEEL`. The test fails if the wheel does not support every Python from 3.11
on and manylinux, or if `dyno load` in that environment measures nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

TIME_LIMIT_S = 600


def main() -> None:
    """Exit with 1 and a message if something is wrong."""
    wheel = Path(sys.argv[1]).resolve()
    tags = wheel.stem.split("-", 2)[2]
    if "abi3" not in tags or "manylinux" not in tags:
        sys.exit(f"{wheel.name}: not abi3 for manylinux")
    with tempfile.TemporaryDirectory(prefix="serverdyno-wheel-") as name:
        place = Path(name)
        venv.create(place / "venv", with_pip=True)
        binaries = place / "venv" / "bin"
        run(binaries / "pip", "install", "--quiet", f"{wheel}[report]")
        # The path has only the new environment and basic tools, but no cargo, rustc or gcc.
        environment = {
            "PATH": f"{binaries}",
            "HOME": name,
            "TMPDIR": name,
            "LANG": os.environ.get("LANG", "C.UTF-8"),
        }
        told = run(binaries / "python", "-c", TRIAL, cwd=place, environment=environment)
    if "Table 1." not in told:
        sys.exit(f"{wheel.name}: dyno load showed no table")
    print(f"{wheel}: installed into an empty environment; dyno load works")


TRIAL = """
import subprocess, sys
from serverdyno.servers.reference_model import HttpProcess
server = HttpProcess(body_bytes=1024).start({})
url = f"http://127.0.0.1:{server.port}/"
sys.exit(subprocess.run(["dyno", "load", url, "--clients", "1,4", "--into", "trial"]).returncode)
"""


def run(*command: object, cwd: Path | None = None, environment: dict[str, str] | None = None) -> str:
    """Return a command's output. If it fails, exit with its output."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words, cwd=cwd, env=environment, capture_output=True, text=True, timeout=TIME_LIMIT_S, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(words)}\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
