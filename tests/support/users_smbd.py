"""An smbd as a user runs one: started, killed and restarted without the tool, on one address.

Not for our own experiments: those have the driver, `serverdyno.servers.samba`.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from serverdyno import _native
from serverdyno.servers.proof import free_port, offer
from support.file_server import PATIENCE_S, skip_unless_installed

USER, PASSWORD = "nobody", "correct horse"
SHARES = {
    "data": "",
    "more": "",
    "denied": "valid users = root",
    "sealed": "smb encrypt = required",
}
CONFIGURATION = """[global]
  server role = standalone server
  workgroup = BENCH
  netbios name = USERS
  disable netbios = yes
  smb ports = {port}
  interfaces = 127.0.0.1/32
  bind interfaces only = yes
  private dir = {at}/private
  lock directory = {at}/lock
  state directory = {at}/state
  cache directory = {at}/cache
  pid directory = {at}/pid
  ncalrpc dir = {at}/ncalrpc
  usershare path =
  passdb backend = tdbsam:{at}/private/passdb.tdb
  log file = {at}/log
  load printers = no
  printing = bsd
  printcap name = /dev/null
  disable spoolss = yes
  case sensitive = yes
  kernel oplocks = no
  idmap config * : backend = tdb
  idmap config * : range = 3000-7999
  {settings}
"""


class UsersSmbd:
    """An smbd in the directory `at`, which other users must be able to enter; it needs root."""

    def __init__(self, at: Path, settings: str = "", shares: Mapping[str, str] = SHARES) -> None:
        skip_unless_installed("smbd", "smbpasswd", "smbcontrol", "pdbedit")
        self.at, self.port = at, free_port()
        self._process: subprocess.Popen[bytes] | None = None
        for name in ("private", "lock", "state", "cache", "pid", "ncalrpc", *shares):
            (at / name).mkdir(parents=True)
        text = CONFIGURATION.format(port=self.port, at=at, settings=settings)
        for name, line in shares.items():
            (at / name).chmod(0o777)
            text += f"[{name}]\n  path = {at / name}\n  read only = no\n  {line}\n"
        (at / "smb.conf").write_text(text)
        added = f"{PASSWORD}\n{PASSWORD}\n"
        command = ["smbpasswd", "-c", str(at / "smb.conf"), "-s", "-a", USER]
        subprocess.run(command, input=added, text=True, check=True, capture_output=True, timeout=PATIENCE_S)

    @property
    def url(self) -> str:
        return f"smb://127.0.0.1:{self.port}/"

    def start(self) -> None:
        """Start the server and wait until it answers."""
        command = ["smbd", "--foreground", "--no-process-group", "--configfile", str(self.at / "smb.conf")]
        # It ends with its process group at the end of its input, even if the tests are killed.
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                offer(self.port)
                return
            except _native.AnswerError:
                assert time.monotonic() < deadline, "smbd does not answer"
                time.sleep(0.02)

    def processes(self) -> list[psutil.Process]:
        """Return its processes, the first one first."""
        assert self._process is not None
        first = psutil.Process(self._process.pid)
        return [first, *first.children(recursive=True)]

    def kill(self) -> None:
        """Kill all its processes at once, without a warning."""
        if self._process is None:
            return
        for process in self.processes():
            with suppress(psutil.NoSuchProcess):  # a process that has just served its last client
                process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process = None

    def close_share(self, name: str) -> None:
        """Disconnect every user of a share, as an administrator can."""
        command = ["smbcontrol", "-s", str(self.at / "smb.conf"), "smbd", "close-share", name]
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S)


def opened_to_others(at: Path) -> None:
    """Let servers' users enter a test's directory."""
    for directory in (at, *at.parents):
        if directory == Path(tempfile.gettempdir()):
            break
        directory.chmod(0o755)


def started(at: Path, settings: str = "", shares: Mapping[str, str] = SHARES) -> UsersSmbd:
    """Start a server for the caller to kill; `shares` have the lines of their configuration."""
    opened_to_others(at)
    server = UsersSmbd(at / "users-smbd", settings, shares)
    server.start()
    return server


def left_on(server: UsersSmbd, *shares: str) -> list[str]:
    """Return the names of everything on the shares."""
    return sorted(f"{share}/{path.name}" for share in shares for path in (server.at / share).iterdir())
