"""A fleet is started and ended over a real sshd, with a key created for the test."""

from __future__ import annotations

import getpass
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import tomli_w

from serverdyno.servers.proof import free_port
from support.dyno_process import DYNO, PATIENCE_S, Home
from support.places import ROOT

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/bin:/sbin:/bin")

pytestmark = pytest.mark.skipif(SSHD is None, reason="there is no sshd: apt-get install openssh-server")

CONFIGURATION = """
ListenAddress 127.0.0.1:{port}
HostKey {at}/host
PidFile none
AuthorizedKeysFile {at}/user.pub
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
SetEnv PYTHONPATH={package} TMPDIR={at}
"""
CLIENT = """
Host node-*
    HostName 127.0.0.1
    Port {port}
    User {user}
    IdentityFile {at}/user
    IdentitiesOnly yes
    UserKnownHostsFile {at}/known
    StrictHostKeyChecking accept-new
"""


@pytest.fixture
def ssh_config(tmp_path: Path) -> Iterator[Path]:
    """Return a client configuration for a private sshd."""
    assert SSHD is not None
    at, port = tmp_path / "ssh", free_port()
    at.mkdir(mode=0o700)
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(at / name)], check=True)
    package = ROOT / "python"
    (at / "sshd_config").write_text(CONFIGURATION.format(port=port, at=at, package=package))
    (at / "config").write_text(CLIENT.format(port=port, at=at, user=getpass.getuser()))
    made = not Path("/run/sshd").exists()  # sshd drops its privileges there; Debian's service creates it
    if made:
        Path("/run/sshd").mkdir(mode=0o755)
    server = subprocess.Popen(
        [SSHD, "-D", "-e", "-f", str(at / "sshd_config")], stderr=subprocess.PIPE, text=True
    )
    assert server.stderr is not None
    try:
        assert "Server listening" in server.stderr.readline()
        yield at / "config"
    finally:
        server.kill()
        with server:
            server.wait(PATIENCE_S)
        if made:
            Path("/run/sshd").rmdir()


def hosts_file(folder: Path, config: Path, names: list[str]) -> Path:
    path = folder / "lab.toml"
    told = {
        "at": f"127.0.0.1:{free_port()}",
        "directory": str(folder / "there"),
        "ssh_options": ["-F", str(config)],
        "hosts": [{"name": name, "ssh": f"node-{name}", "dyno": DYNO} for name in names],
    }
    path.write_text(tomli_w.dumps(told))
    return path


def test_hosts_become_nodes_over_ssh_and_keep_no_certificate(
    home: Home, tmp_path: Path, ssh_config: Path
) -> None:
    path = hosts_file(tmp_path, ssh_config, ["a", "b"])
    up = home.here("fleet", "up", path)
    assert up.returncode == 0, up.stderr
    lab = tmp_path / "lab"
    try:
        assert "2 nodes of lab have joined" in up.stdout
        status = home.here("fleet", "status", lab, COLUMNS="200")
        assert "2 of 2 nodes" in status.stdout, status.stdout + status.stderr
        key = tmp_path / "there" / "lab" / "a" / "certificate.key"
        assert key.stat().st_mode & 0o077 == 0
    finally:
        down = home.here("fleet", "down", lab)
    assert down.returncode == 0, down.stderr
    assert "node a ends" in down.stdout
    assert not list((tmp_path / "there").rglob("*.key"))


def test_every_host_that_can_not_be_started_is_named_and_nothing_stays(
    home: Home, tmp_path: Path, ssh_config: Path
) -> None:
    path = hosts_file(tmp_path, ssh_config, ["a", "b"])
    (tmp_path / "ssh" / "user.pub").unlink()
    up = home.here("fleet", "up", path)
    assert up.returncode == 1, up.stdout
    assert "a can't be started: ssh node-a:" in up.stderr
    assert "b can't be started: ssh node-b:" in up.stderr
    assert "Permission denied" in up.stderr
    status = home.here("fleet", "status", tmp_path / "lab")
    assert "no answer from the fleet's scheduler" in status.stderr


def test_all_mistakes_of_a_file_of_hosts_are_told_at_once(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "lab.toml"
    path.write_text('at = 5\n[[hosts]]\nname = "A b"\nssh = "-oProxyCommand=x"\n')
    told = home.here("fleet", "up", path)
    assert (told.returncode, "3 problems" in told.stderr) == (2, True), told.stderr
    assert sys.executable in DYNO
