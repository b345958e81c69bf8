"""A private Active Directory domain controller of Samba, with its KDC and a share, that refuses NTLM.

A file server can join the domain.

It runs in its own namespaces (network, mounts, names, processes), so its ports, its name and its end affect nothing
else. Programs that use it run inside: `Domain.run`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from support.file_server import PATIENCE_S, skip_unless_installed
from support.places import ROOT, TESTS
from support.users_smbd import opened_to_others

REALM, HOST, USER, PASSWORD = "DYNO.TEST", "dc1.dyno.test", "alice", "Pass-w0rd!"
OF_ANOTHER = "web.dyno.test"
"""A second name of the server, which belongs to another account of the domain."""
UNKNOWN = "nobody.dyno.test"
"""A third name, unknown to the domain."""
MEMBER, MEMBER_PORT = "files.dyno.test", 1445
"""Another file server, once it has joined the domain. It maps the users to the accounts nobody, which here is not the
guest account, and games."""
AWAY, AWAY_ADDRESS = "away.dyno.test", "192.0.2.5"
"""A second name of that server, with an address that is not loopback."""
OF_A_SYSTEM = "web"
"""A user whose account there is a system account."""
PROVISION_S = 300.0
PARTS = {
    "/usr/lib/x86_64-linux-gnu/samba/ldb/samba_secrets.so": "samba-dsdb-modules",
    "/usr/share/samba/setup/ad-schema": "samba-ad-provision",
}
OF_BOTH = """  realm = {realm}
  workgroup = DYNO
  interfaces = lo
  bind interfaces only = yes
  disable netbios = yes
  private dir = {at}/private
  state directory = {at}/state
  cache directory = {at}/cache
  lock directory = {at}/lock
  pid directory = {at}/pid
  ncalrpc dir = {at}/ncalrpc
  ntlm auth = disabled
  load printers = no
  printing = bsd
  printcap name = /dev/null
  disable spoolss = yes
  usershare path =
"""
SERVER = """[global]
  netbios name = DC1
{both}  server role = active directory domain controller
  server services = s3fs, rpc, ldap, cldap, kdc, winbindd
  smb ports = 445
  ntp signd socket directory = {at}/dc/ntp
  tls enabled = no
[data]
  path = {at}/share
  read only = no
  include = {at}/data.conf
[sysvol]
  path = {at}/dc/state/sysvol
"""
OF_MEMBER = """[global]
  netbios name = FILES
{both}  server role = member server
  password server = {host}
  smb ports = {port}
  idmap config * : backend = tdb
  idmap config * : range = 3000-7999
  username map = {at}/member/users
  guest account = daemon
[data]
  path = {at}/member/share
  read only = no
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
# Samba's programs look for winbind below /run. samba ends at the end of its input, even if the tests are killed.
BEGIN = """set -e
hostname dc1
ip link set lo up
ip address add "$2/32" dev lo
mount --bind "$1/hosts" /etc/hosts
mount -t tmpfs none /run
mkdir /run/samba
exec samba --interactive --debug-stdout -s "$1/smb.conf" >"$1/samba.log" 2>&1
"""
# A separate host except for the network, because smbd looks for winbindd below /run. The controller may not accept LDAP
# yet.
BEGIN_MEMBER = """set -e
hostname files
mount -t tmpfs none /run
mkdir /run/samba
exec >"$1/member.log" 2>&1
until net ads join -s "$1/member.conf" -S "$2" -U "Administrator%$3" --use-kerberos=required --no-dns-updates
do sleep 0.2; done
winbindd -s "$1/member.conf" --foreground --no-process-group --debug-stdout &
exec smbd -s "$1/member.conf" --foreground --no-process-group --debug-stdout
"""
# A credential cache: version, length of the header, tag 1 of length 8: seconds and microseconds by which the KDC is
# ahead.
BEFORE_OFFSET = bytes.fromhex("0504000c00010008")


def with_clock_offset(cache: bytes, offset_s: int) -> bytes:
    """Return a credential cache with this clock offset of the KDC."""
    assert cache.startswith(BEFORE_OFFSET)
    offset = BEFORE_OFFSET + offset_s.to_bytes(4, "big", signed=True)
    return offset + cache[len(offset) :]


class Domain:
    """A domain with one user; it needs root."""

    def __init__(self, at: Path) -> None:
        programs = ("samba", "samba-tool", "smbd", "winbindd", "net", "smbclient")
        skip_unless_installed(*programs, "kinit", "kvno", "unshare", "nsenter")
        for path, package in PARTS.items():
            if not Path(path).exists():
                pytest.skip(f"{package} is not installed here: run tools/install-servers.sh tests")
        self.at = at
        opened_to_others(at)
        (at / "share").mkdir()
        (at / "share").chmod(0o777)
        names = " ".join((HOST, "dc1", OF_ANOTHER, UNKNOWN, MEMBER, "files", "localhost"))
        (at / "hosts").write_text(f"127.0.0.1 {names}\n{AWAY_ADDRESS} {AWAY}\n")
        both = OF_BOTH.format(realm=REALM, at=at / "dc")
        (at / "smb.conf").write_text(SERVER.format(both=both, at=at))
        (at / "data.conf").write_text("")
        (at / "krb5.conf").write_text(KERBEROS.format(realm=REALM, kdc=88))
        (at / "krb5-unreachable.conf").write_text(KERBEROS.format(realm=REALM, kdc=1))
        (at / "client.conf").write_text(f"[global]\n  realm = {REALM}\n  workgroup = DYNO\n")
        self._provision()
        self._process: subprocess.Popen[bytes] | None = None
        self._member: subprocess.Popen[bytes] | None = None

    def _provision(self) -> None:
        made = ["--server-role=dc", "--dns-backend=NONE", f"--adminpass={PASSWORD}"]
        names = [f"--realm={REALM}", "--domain=DYNO", "--host-name=dc1", "--host-ip=127.0.0.1"]
        self._tool("domain", "provision", f"--targetdir={self.at}/dc", *names, *made)
        for name in ("cache", "lock", "pid", "ncalrpc", "ntp"):
            (self.at / "dc" / name).mkdir(exist_ok=True)
        own = ["-s", str(self.at / "smb.conf")]
        for user in (USER, OF_A_SYSTEM):
            self._tool("user", "create", user, PASSWORD, *own)
        self._tool("spn", "add", f"cifs/{OF_ANOTHER}", OF_A_SYSTEM, *own)
        # A domain controller with a DNS server does this itself.
        self._tool("spn", "add", f"ldap/{HOST}", "DC1$", *own)

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
        """Start the domain controller, and wait until a user can list the share."""
        spaces = ["--net", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
        self._process = subprocess.Popen(
            ["unshare", *spaces, "sh", "-c", BEGIN, "sh", str(self.at), AWAY_ADDRESS],
            stdin=subprocess.PIPE,
            start_new_session=True,
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

    def join(self) -> None:
        """Join another file server to the domain, and wait until the user can list its share."""
        for name in ("private", "state", "cache", "lock", "pid", "ncalrpc", "share"):
            (self.at / "member" / name).mkdir(parents=True)
        (self.at / "member" / "share").chmod(0o777)  # the user's uid here differs from that on the controller
        (self.at / "member" / "users").write_text(f"nobody = DYNO\\{USER}\ngames = DYNO\\{OF_A_SYSTEM}\n")
        both = OF_BOTH.format(realm=REALM, at=self.at / "member")
        configuration = OF_MEMBER.format(both=both, host=HOST, port=MEMBER_PORT, at=self.at)
        (self.at / "member.conf").write_text(configuration)
        spaces = ["--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
        begin = ["unshare", *spaces, "sh", "-c", BEGIN_MEMBER, "sh", str(self.at), HOST, PASSWORD]
        self._member = subprocess.Popen(
            [*self._inside(), *begin],
            stdin=subprocess.DEVNULL,
            env=self._environment(),
            start_new_session=True,  # smbd and winbindd signal their whole process group when they can't start
        )
        deadline = time.monotonic() + PATIENCE_S
        while self.smbclient("ls", MEMBER, MEMBER_PORT).returncode:
            assert self._member.poll() is None and time.monotonic() < deadline, self._log("member.log")
            time.sleep(0.2)
        known = self.run("samba-tool", "spn", "add", f"cifs/{AWAY}", "FILES$", "-s", f"{self.at}/smb.conf")
        assert known.returncode == 0, known.stderr

    def _log(self, name: str = "samba.log") -> str:
        path = self.at / name
        return path.read_text(errors="replace")[-2000:] if path.exists() else "no log"

    def _inside(self) -> list[str]:
        assert self._process is not None
        [first] = psutil.Process(self._process.pid).children()
        return ["nsenter", "--target", str(first.pid), "--net", "--mount", "--uts", "--pid"]

    def _environment(self) -> dict[str, str]:
        ours = {
            "KRB5_CONFIG": f"{self.at}/krb5.conf",
            "KRB5CCNAME": f"FILE:{self.at}/cache",
            "LC_ALL": "C",
            "PYTHONPATH": f"{ROOT}:{TESTS}",
            "XDG_CONFIG_HOME": f"{self.at}/config",
        }
        return os.environ | ours

    def run(
        self, *command: str, given: str = "", environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a program in the server's namespaces, with a credential cache of the domain."""
        return subprocess.run(
            [*self._inside(), *command],
            input=given,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
            env=self._environment() | dict(environment or {}),
        )

    def dyno(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run `dyno` with the domain's credential cache, unless the environment names another."""
        program = str(Path(sys.executable).with_name("dyno"))
        return self.run(program, *arguments, environment=environment)

    def dynos(self, *cases: tuple[list[str], dict[str, str]]) -> list[subprocess.CompletedProcess[str]]:
        """Run several `dyno` command lines, each with its environment, in turn in one process."""
        asked = [{"command": command, "environment": environment} for command, environment in cases]
        told = zip(cases, self.load(*asked), strict=True)
        return [subprocess.CompletedProcess(command, **each) for (command, _), each in told]

    def node(self, folder: Path, **environment: str) -> subprocess.Popen[str]:
        """Start a fleet node in the server's namespaces; the test ends it by `dyno fleet down`."""
        return subprocess.Popen(
            [*self._inside(), str(Path(sys.executable).with_name("dyno")), "node", str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=self._environment() | environment,
        )

    def keytab(self) -> str:
        """Return the file with the user's keys, for KRB5_CLIENT_KTNAME."""
        path = self.at / "keytab"
        if not path.exists():
            own = [f"--principal={USER}", "-s", f"{self.at}/smb.conf"]
            exported = self.run("samba-tool", "domain", "exportkeytab", str(path), *own)
            assert exported.returncode == 0, exported.stderr
        return f"FILE:{path}"

    def cache_with_clock_offset(self, offset_s: int) -> str:
        """Return the user's credential cache, for KRB5CCNAME, as if the KDC's clock were this far ahead."""
        path = self.at / f"cache{offset_s:+}"
        path.write_bytes(with_clock_offset((self.at / "cache").read_bytes(), offset_s))
        return f"FILE:{path}"

    def kinit(self) -> subprocess.CompletedProcess[str]:
        """Get a ticket for the user."""
        return self.run("kinit", USER, given=f"{PASSWORD}\n")

    def smbclient(self, commands: str, host: str = HOST, port: int = 445) -> subprocess.CompletedProcess[str]:
        """Run smbclient, an independent client, with the user's ticket."""
        options = ["-s", f"{self.at}/client.conf", "-p", f"{port}", "--use-kerberos=required"]
        options.append(f"--use-krb5-ccache={self.at}/cache")
        return self.run("smbclient", f"//{host}/data", *options, "-c", commands)

    def load(self, *cases: dict[str, Any]) -> list[dict[str, Any]]:
        """Run load levels on the share and return their outcomes; `in_domain.py` describes the cases."""
        program = str(Path(__file__).with_name("in_domain.py"))
        done = self.run(sys.executable, program, given=json.dumps(cases))
        assert done.returncode == 0, done.stdout + done.stderr
        told: list[dict[str, Any]] = json.loads(done.stdout)
        return told

    def stop(self) -> None:
        if self._process is None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(PATIENCE_S)
        finally:
            self._process.kill()
            self._process.wait()
            if self._member is not None:  # The end of the PID namespace has ended it.
                self._member.wait(PATIENCE_S)
