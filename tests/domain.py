"""A domain of its own: an Active Directory domain controller of Samba, with its KDC and a share, that refuses NTLM.

It lives in namespaces (network, mounts, names, processes), so its ports, its name and its end are nobody else's affair.
Programs that use it run inside: `Domain.run`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from file_server import PATIENCE_S, skip_unless_installed
from users_smbd import opened_to_others

REALM, HOST, USER, PASSWORD = "DYNO.TEST", "dc1.dyno.test", "alice", "Pass-w0rd!"
OF_ANOTHER = "web.dyno.test"
"""A second name of the server, which the domain knows as that of another account."""
UNKNOWN = "nobody.dyno.test"
"""A third, which the domain doesn't know."""
PROVISION_S = 300.0
PARTS = {
    "/usr/lib/x86_64-linux-gnu/samba/ldb/samba_secrets.so": "samba-dsdb-modules",
    "/usr/share/samba/setup/ad-schema": "samba-ad-provision",
}
SERVER = """[global]
  netbios name = DC1
  realm = {realm}
  workgroup = DYNO
  server role = active directory domain controller
  server services = s3fs, rpc, ldap, cldap, kdc, winbindd
  interfaces = lo
  bind interfaces only = yes
  disable netbios = yes
  smb ports = 445
  private dir = {at}/dc/private
  state directory = {at}/dc/state
  cache directory = {at}/dc/cache
  lock directory = {at}/dc/lock
  pid directory = {at}/dc/pid
  ncalrpc dir = {at}/dc/ncalrpc
  ntp signd socket directory = {at}/dc/ntp
  ntlm auth = disabled
  load printers = no
  printing = bsd
  printcap name = /dev/null
  disable spoolss = yes
  usershare path =
[data]
  path = {at}/share
  read only = no
  include = {at}/data.conf
[sysvol]
  path = {at}/dc/state/sysvol
"""
KERBEROS = """[libdefaults]
  default_realm = {realm}
  dns_lookup_realm = false
  dns_lookup_kdc = false
  rdns = false
  dns_canonicalize_hostname = false
[realms]
  {realm} = {{
    kdc = 127.0.0.1:{kdc}
  }}
[domain_realm]
  .dyno.test = {realm}
"""
# Samba's programs look for winbind below /run; samba ends when its input does, also where the tests are killed.
BEGIN = """set -e
hostname dc1
ip link set lo up
mount --bind "$1/hosts" /etc/hosts
mount -t tmpfs none /run
mkdir /run/samba
exec samba --interactive --debug-stdout -s "$1/smb.conf" >"$1/samba.log" 2>&1
"""


class Domain:
    """Made, with one user. Needs root."""

    def __init__(self, at: Path) -> None:
        skip_unless_installed("samba", "samba-tool", "kinit", "kvno", "smbclient", "unshare", "nsenter")
        for path, package in PARTS.items():
            if not Path(path).exists():
                pytest.skip(f"{package} is not installed here: run tools/install-servers.sh tests")
        self.at = at
        opened_to_others(at)
        (at / "share").mkdir()
        (at / "share").chmod(0o777)
        names = " ".join((HOST, "dc1", OF_ANOTHER, UNKNOWN, "localhost"))
        (at / "hosts").write_text(f"127.0.0.1 {names}\n")
        (at / "smb.conf").write_text(SERVER.format(realm=REALM, at=at))
        (at / "data.conf").write_text("")
        (at / "krb5.conf").write_text(KERBEROS.format(realm=REALM, kdc=88))
        (at / "krb5-unreachable.conf").write_text(KERBEROS.format(realm=REALM, kdc=1))
        (at / "client.conf").write_text(f"[global]\n  realm = {REALM}\n  workgroup = DYNO\n")
        self._provision()
        self._process: subprocess.Popen[bytes] | None = None

    def _provision(self) -> None:
        made = ["--server-role=dc", "--dns-backend=NONE", f"--adminpass={PASSWORD}"]
        names = [f"--realm={REALM}", "--domain=DYNO", "--host-name=dc1", "--host-ip=127.0.0.1"]
        self._tool("domain", "provision", f"--targetdir={self.at}/dc", *names, *made)
        for name in ("cache", "lock", "pid", "ncalrpc", "ntp"):
            (self.at / "dc" / name).mkdir(exist_ok=True)
        own = ["-s", str(self.at / "smb.conf")]
        for user in (USER, "web"):
            self._tool("user", "create", user, PASSWORD, *own)
        self._tool("spn", "add", f"cifs/{OF_ANOTHER}", "web", *own)

    def _tool(self, *arguments: str) -> None:
        done = subprocess.run(
            ["unshare", "--net", "samba-tool", *arguments],
            capture_output=True,
            text=True,
            timeout=PROVISION_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self) -> None:
        """Returns once a user can list the share."""
        spaces = ["--net", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
        self._process = subprocess.Popen(
            ["unshare", *spaces, "sh", "-c", BEGIN, "sh", str(self.at)], stdin=subprocess.PIPE
        )
        deadline = time.monotonic() + PATIENCE_S
        while not self._answers():
            assert self._process.poll() is None and time.monotonic() < deadline, self._log()
            time.sleep(0.2)

    def _answers(self) -> bool:
        assert self._process is not None
        if not psutil.Process(self._process.pid).children():
            return False
        return self.kinit().returncode == 0 and self.smbclient("ls").returncode == 0

    def _log(self) -> str:
        path = self.at / "samba.log"
        return path.read_text(errors="replace")[-2000:] if path.exists() else "no log"

    def run(self, *command: str, given: str = "") -> subprocess.CompletedProcess[str]:
        """A program beside the server, with a credential cache of the domain's."""
        assert self._process is not None
        [first] = psutil.Process(self._process.pid).children()
        inside = ["nsenter", "--target", str(first.pid), "--net", "--mount", "--uts", "--pid"]
        return subprocess.run(
            [*inside, *command],
            input=given,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
            env=os.environ
            | {"KRB5_CONFIG": f"{self.at}/krb5.conf", "KRB5CCNAME": f"FILE:{self.at}/cache", "LC_ALL": "C"}
            | {"PYTHONPATH": str(Path(__file__).parents[1])},
        )

    def kinit(self) -> subprocess.CompletedProcess[str]:
        """The user gets a ticket."""
        return self.run("kinit", USER, given=f"{PASSWORD}\n")

    def smbclient(self, commands: str) -> subprocess.CompletedProcess[str]:
        """Another client, by that ticket."""
        options = ["--use-kerberos=required", f"--use-krb5-ccache={self.at}/cache"]
        return self.run(
            "smbclient", "-s", str(self.at / "client.conf"), f"//{HOST}/data", *options, "-c", commands
        )

    def load(self, *cases: dict[str, Any]) -> list[dict[str, Any]]:
        """What came of mixes on the share; see `in_domain.py` for the cases."""
        program = str(Path(__file__).with_name("in_domain.py"))
        done = self.run(sys.executable, program, given=json.dumps(cases))
        assert done.returncode == 0, done.stdout + done.stderr
        told: list[dict[str, Any]] = json.loads(done.stdout)
        return told

    def stop(self) -> None:
        """All of it."""
        if self._process is None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(PATIENCE_S)
        finally:
            self._process.kill()
            self._process.wait()
