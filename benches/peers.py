"""The peers (compared programs) on this machine: their installation if possible, and their versions."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from benches.rounds import BenchError

PACKAGES = {
    "wrk": "wrk",
    "ab": "apache2-utils",
    "h2load": "nghttp2-client",
    "dbench": "dbench",
    "bonnie++": "bonnie++",
}  # program: Debian package
BUILD_S = 300.0


def install_missing() -> None:
    """Install missing peers from Debian's packages if root; otherwise print the missing ones. None starts a service.

    Only the load file of dbench is used. `tools/install-servers.sh tests` installs Samba's clients.
    """
    for name, build in (("minio-go", minio_loop), ("s5cmd", s5cmd)):
        try:
            build()
        except BenchError as error:
            _say(f"Skipping the comparison with {name}: {error}.")
    missing = [package for program, package in PACKAGES.items() if shutil.which(program) is None]
    if not missing:
        return
    words = " ".join(missing)
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        _say(
            f"not installed, and only root can install them with apt-get: {words}. The comparison leaves them out."
        )
        return
    _say(f"installing the programs to compare with (Debian packages): {words}.")
    install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing]
    if subprocess.run(install, check=False).returncode:
        subprocess.run(["apt-get", "update", "-qq"], check=False)
        if subprocess.run(install, check=False).returncode:
            _say(f"apt-get could not install all of {words}. The comparison leaves out the missing ones.")


def minio_loop() -> Path:
    """Return the path of the minio-go loop. Raises BenchError if it can't be built."""
    return _built("minio_loop", ["go.mod", "go.sum", "main.go"], ".")


def s5cmd() -> Path:
    """Return the path of s5cmd. Raises BenchError if it can't be built."""
    return _built("s5cmd", ["go.mod", "go.sum"], "github.com/peak/s5cmd/v2")


def _built(name: str, sources: list[str], package: str) -> Path:
    """Return the path of a Go program, built once and kept in the user's cache. Its module is in the folder `name`."""
    go = shutil.which("go")
    if go is None:
        raise BenchError("Go is not installed")
    folder = Path(__file__).with_name(name)
    mark = hashlib.sha256(b"".join((folder / source).read_bytes() for source in sources)).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    program = cache / "serverdyno" / f"{name}-{mark}"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        words = [go, "build", "-mod=readonly", "-o", f"{program}.new", package]
        try:
            subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True, timeout=BUILD_S)
        except subprocess.TimeoutExpired as error:
            raise BenchError(f"go build took more than {BUILD_S:g} s") from error
        except subprocess.CalledProcessError as error:
            raise BenchError(f"go build failed: {error.stderr.strip()}") from error
        Path(f"{program}.new").replace(program)
    return program


def versions() -> dict[str, str]:
    """Return the line with the version that each peer prints."""
    found = {}
    for program, option in (
        ("wrk", "-v"),
        ("ab", "-V"),
        ("h2load", "--version"),
        ("oha", "--version"),
        ("smbtorture", "--version"),
        ("smbclient", "--version"),
        ("bonnie++", "-h"),
        ("gcc", "--version"),
        ("go", "version"),
    ):
        if shutil.which(program):
            done = subprocess.run([program, option], capture_output=True, text=True, check=False)
            lines = (done.stdout + done.stderr).strip().splitlines()
            found[program] = next((line for line in lines if any(map(str.isdigit, line))), lines[0])
    return found


def _say(text: str) -> None:
    print(f"benches: {text}", file=sys.stderr)
