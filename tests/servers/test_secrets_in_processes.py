"""No secret is in a command line or an environment that other users of the machine can read."""

from __future__ import annotations

import os
import subprocess

import psutil
import pytest
from benches.levels import http_target

from serverdyno import _native
from serverdyno.fleet.processes import processes
from serverdyno.servers.consent import CONSENT_PATH
from serverdyno.servers.local import LocalServer
from serverdyno.servers.proof import free_port
from serverdyno.servers.registry import DRIVERS
from serverdyno.servers.running import running
from support.fleet_level import carried, level
from support.reference_servers import start_http

NOBODY = 65534
ELSEWHERE = "127.0.0.2"
"""An address that drivers don't treat as loopback, so that their servers need a token."""
STANDS_BEFORE_OTHERS = ("haproxy", "varnish")
CASES = [
    (name, address)
    for name, driver in DRIVERS.items()
    if issubclass(driver, LocalServer) and driver.installed() and name not in STANDS_BEFORE_OTHERS
    for address in (None, ELSEWHERE)
    if (name, address) != ("samba", ELSEWHERE)  # smbd listens only on the address of an interface
]


def as_other_user(*command: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command as an unprivileged other user if we are root."""
    other = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    return subprocess.run(command, capture_output=True, check=False, cwd="/", **other)  # type: ignore[call-overload, no-any-return]


def assert_hidden(secrets: set[str], seen: str, pids: list[int]) -> None:
    """Check that no secret is visible. `seen` must be, as proof that another user can read the command lines."""
    said = as_other_user("sh", "-c", "cat /proc/[0-9]*/cmdline").stdout
    assert seen.encode() in said
    assert not [secret for secret in secrets if secret.encode() in said]
    for pid in pids if os.geteuid() == 0 else ():
        assert as_other_user("cat", f"/proc/{pid}/environ").returncode != 0


@pytest.mark.parametrize(("name", "address"), CASES)
def test_no_secret_of_a_server_is_in_a_command_line(name: str, address: str | None) -> None:
    with running(name, {}, address=address) as server:
        assert isinstance(server, LocalServer)
        assert server.process is not None
        access = server.access()
        secrets = {server.secret, access.password, access.consent_token, access.ticket} - {None, ""}
        assert len(secrets) >= 1
        pids = [server.process.keeper.pid, *server.pids()]
        assert_hidden({str(secret) for secret in secrets}, str(server.directory), pids)


def test_no_secret_of_a_load_is_in_a_command_line() -> None:
    secrets: dict[str, str | None] = {"consent_token": "5e" * 16, "password": "p4" * 16}
    port, token = free_port(), str(secrets["consent_token"])
    consent = _native.consent_document(f"127.0.0.1:{port}", token).encode()
    server = start_http(port=port, documents={f"{CONSENT_PATH}{token}": consent})
    try:
        target = http_target(f"http://127.0.0.1:{server.port}/")
        with processes(2, target, secrets) as running_fleet:
            carried(running_fleet, level(target, length_s=0.3))
            pids = [child.pid for child in psutil.Process().children()]
            assert len(pids) >= 2
            assert_hidden({str(secret) for secret in secrets.values()}, "serverdyno.fleet.worker", pids)
    finally:
        server.stop()
