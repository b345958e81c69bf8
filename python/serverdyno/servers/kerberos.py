"""Get a Kerberos ticket for a file server with MIT's own tools: `kinit` and `kvno` (Debian: krb5-user).

These tools support krb5.conf, KDCs in DNS, referrals and every kind of credential cache, so the data plane need not.
The data plane logs on all clients with the one ticket that this module fetches before the load
(`crates/smb/src/auth/ticket.rs`).
"""

from __future__ import annotations

import ipaddress
import os
import shutil
import subprocess

from serverdyno.errors import ServerError, UserError
from serverdyno.probes.abandoned import private_directory

KEYTAB_VARIABLE = "KRB5_CLIENT_KTNAME"
"""Environment variable of MIT Kerberos with the path of a client keytab."""
TIMEOUT_S = 60.0
"""Time limit of a tool: MIT's tools ask each KDC several times before they give up."""

LAPSED = "The password has expired: set a new one, for example with kpasswd."
NO_KEYS = f"Check that {KEYTAB_VARIABLE} names a keytab with keys for user."
HINTS = (
    # Parts of the messages of MIT's tools (with `LC_ALL=C`), and a remedy for each.
    (("credentials cache",), "Get a ticket with kinit, or set user and a password."),
    (("Password", "expired"), LAPSED),
    (("Cannot read password",), LAPSED),  # kinit asks for a new password
    (("expired",), "Get a new ticket with kinit."),
    (("Client", "not found in Kerberos"), "The realm has no such user: check user (NAME or NAME@REALM)."),
    (
        ("erver", "not found in Kerberos"),
        "The realm has no such file server: the URL must contain the host name with which the server joined "
        "the domain.",
    ),
    (("default realm",), "Write user as NAME@REALM, or set default_realm in /etc/krb5.conf."),
    (("Password incorrect",), "The password is wrong."),
    (
        ("revoked",),
        "The domain has disabled or locked the user's account, or the account has expired: ask the domain's "
        "administrator to enable it.",
    ),
    (("Preauthentication failed",), "The password or the keytab is wrong."),
    (("Key table",), NO_KEYS),
    (("Keytab",), NO_KEYS),
    (("keytab",), NO_KEYS),
    (
        ("Clock skew",),
        "The clocks of this machine and of the KDC differ by more than 5 minutes: correct the one that is wrong.",
    ),
    (
        ("KDC", "realm"),
        "The KDC can't be reached or found: check the network, the name servers, and the realms in /etc/krb5.conf.",
    ),
)


def service_ticket(host: str, user: str | None, password: str | None) -> str:
    """Return a credential cache with a ticket for `cifs/host`, in hexadecimal.

    Without `user`, the ticket comes from the default credential cache (`kinit`, KRB5CCNAME). With `user`, it is
    obtained with `password`; if this is None, with the keytab of `KRB5_CLIENT_KTNAME`. Raises UserError or ServerError.
    """
    if _is_address(host):
        raise UserError(
            f"{host} is an address, but Kerberos identifies servers by name",
            hint="Give the server's full name in the URL, for example smb://files.example.com/.",
        )
    if user is not None and "\\" in user:
        raise UserError(f"user = {user!r}: with Kerberos, the user must be NAME or NAME@REALM")
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
            f"Kerberos authentication requires {name}, which is not installed", hint="apt install krb5-user"
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
            f"no Kerberos ticket for cifs/{host}: {name} got no answer from the KDC within {TIMEOUT_S:g} s",
            hint="Check the network, and the realms in /etc/krb5.conf.",
        ) from None
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines() or [f"{name}: no reason given"]
        raise ServerError(f"no Kerberos ticket for cifs/{host}: {said[-1]}", hint=_hint(said[-1]))


def _hint(said: str) -> str:
    for parts, hint in HINTS:
        if all(part in said for part in parts):
            return hint
    return "Try it by hand: kinit, then kvno -S cifs HOST."
