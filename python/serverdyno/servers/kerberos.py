"""A Kerberos ticket for a file server, by MIT's own tools: `kinit` and `kvno` (Debian: krb5-user).

They know krb5.conf, KDCs in DNS, referrals and every kind of credential cache. The data plane needs none of that. It
logs all clients on with the one ticket that is fetched here before the load. Not for: what a ticket is; see
`crates/smb/src/auth/ticket.rs`.
"""

from __future__ import annotations

import ipaddress
import os
import shutil
import subprocess

from serverdyno.errors import ServerError, UserError
from serverdyno.probes.abandoned import private_directory

KEYTAB_VARIABLE = "KRB5_CLIENT_KTNAME"
"""MIT's own, of a file with a user's keys."""
TIMEOUT_S = 60.0
"""MIT's tools ask each KDC several times before they give up."""

LAPSED = "The password has expired: set a new one, for example by kpasswd."
NO_KEYS = f"Check the keytab that {KEYTAB_VARIABLE} names, and that it has keys of user."
HINTS = (
    # What the words of MIT's tools (`LC_ALL=C`) have in them, and what to try.
    (("credentials cache",), "Get a ticket with kinit, or name a user with a password."),
    (("Password", "expired"), LAPSED),
    (("Cannot read password",), LAPSED),  # kinit asks for a new one
    (("expired",), "Get a new ticket with kinit."),
    (("Client", "not found in Kerberos"), "The realm knows no such user: check user (NAME or NAME@REALM)."),
    (
        ("erver", "not found in Kerberos"),
        "The realm knows no such file server: the host in the URL must be the name that it joined the domain with.",
    ),
    (("default realm",), "Write user as NAME@REALM, or set default_realm in /etc/krb5.conf."),
    (("Password incorrect",), "The password is wrong."),
    (
        ("revoked",),
        "The domain has disabled or locked the user's account, or the account has expired: have it enabled there.",
    ),
    (("Preauthentication failed",), "The password or the keytab is wrong."),
    (("Key table",), NO_KEYS),
    (("Keytab",), NO_KEYS),
    (("keytab",), NO_KEYS),
    (("Clock skew",), "The clocks of this machine and of the KDC differ by more than 5 minutes: set them."),
    (
        ("KDC", "realm"),
        "The KDC can't be reached or found: check the network, the name servers, and the realms in /etc/krb5.conf.",
    ),
)


def service_ticket(host: str, user: str | None, password: str | None) -> str:
    """Return a credential cache with a ticket for `cifs/host`, in hexadecimal.

    Without `user`, of whoever has a ticket in the usual cache (`kinit`, KRB5CCNAME). With one, by `password`, or by the
    keytab of `KRB5_CLIENT_KTNAME` where that is None. Raises UserError or ServerError.
    """
    if _is_address(host):
        raise UserError(
            f"{host} is an address, and Kerberos knows servers by their names",
            hint="Give the server's full name in the URL, for example smb://files.example.com/.",
        )
    if user is not None and "\\" in user:
        raise UserError(f"user = {user!r}: for Kerberos a user is NAME or NAME@REALM")
    with private_directory("ticket") as private:
        environment = os.environ | {"LC_ALL": "C"}
        if user is not None:
            environment["KRB5CCNAME"] = f"FILE:{private}/user"
            given = ["-k", "-i"] if password is None else []
            _tool(["kinit", *given, "--", user], environment, host, f"{password or ''}\n")
        ticket = private / "ticket"
        _tool(["kvno", "-q", "--out-cache", f"FILE:{ticket}", "-S", "cifs", host], environment, host)
        return ticket.read_bytes().hex()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _tool(command: list[str], environment: dict[str, str], host: str, given: str = "") -> None:
    """Run one of MIT's tools. Raises UserError or ServerError."""
    name = command[0]
    if shutil.which(name) is None:
        raise UserError(
            f"authentication by Kerberos needs {name}, which is not installed", hint="apt install krb5-user"
        )
    try:
        done = subprocess.run(
            command,
            input=given,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ServerError(
            f"no Kerberos ticket for cifs/{host}: {name} had no answer from the KDC in {TIMEOUT_S:g} s",
            hint="Check the network, and the realms in /etc/krb5.conf.",
        ) from None
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines() or [f"{name}: no reason given"]
        raise ServerError(f"no Kerberos ticket for cifs/{host}: {said[-1]}", hint=_hint(said[-1]))


def _hint(said: str) -> str:
    for parts, hint in HINTS:
        if all(part in said for part in parts):
            return hint
    return "Try the same by hand: kinit, then kvno -S cifs HOST."
