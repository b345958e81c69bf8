"""The peers (compared programs) on this machine: their installation if possible, and their versions."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

PACKAGES = {
    "wrk": "wrk",
    "ab": "apache2-utils",
    "h2load": "nghttp2-client",
    "dbench": "dbench",
    "bonnie++": "bonnie++",
}  # program: Debian package


def install_missing() -> None:
    """Install missing peers from Debian's packages if root; otherwise print the missing ones. None starts a service.

    Only the load file of dbench is used. `tools/install-servers.sh tests` installs Samba's clients.
    """
    missing = [package for program, package in PACKAGES.items() if shutil.which(program) is None]
    if not missing:
        return
    words = " ".join(missing)
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        _say(
            f"not installed, and only root can do so with apt-get: {words}. There will be no comparison with them."
        )
        return
    _say(f"installing {words} (Debian packages): what ours is compared with.")
    install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing]
    if subprocess.run(install, check=False).returncode:
        subprocess.run(["apt-get", "update", "-qq"], check=False)
        if subprocess.run(install, check=False).returncode:
            _say(f"apt-get could not install all of {words}. What is missing is not compared with.")


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
