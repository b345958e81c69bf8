"""How a user logs on to an SMB server that dyno does not start: with NTLM and a password, or with a Kerberos ticket.

Secrets are read from the environment; no setting contains them. `kerberos.py` gets the ticket.
"""

from __future__ import annotations

import os
from typing import Literal
from urllib.parse import urlsplit

from serverdyno.errors import ServerError
from serverdyno.servers.kerberos import KEYTAB_VARIABLE, service_ticket

Authentication = Literal["ntlm", "kerberos"]


def password_of(user: str | None, variable: str) -> str | None:
    """Return the password in an environment variable; None without a user."""
    return os.environ.get(variable) if user is not None else None


def ticket_for(url: str, user: str | None, variable: str, authentication: Authentication) -> str | None:
    """Return the Kerberos ticket; None for NTLM.

    `variable` is the environment variable with the user's password. Raises UserError or ServerError.
    """
    by_kerberos = authentication == "kerberos"
    password = password_of(user, variable)
    if user is not None and password is None and not (by_kerberos and KEYTAB_VARIABLE in os.environ):
        or_else = f'; to use a keytab, name it in {KEYTAB_VARIABLE}; for the ticket from kinit, omit "user"'
        raise ServerError(
            f"the password of {user} is missing: the variable {variable} is not set",
            hint=f"Set the password: export {variable}=...{or_else if by_kerberos else ''}",
        )
    return service_ticket(urlsplit(url).hostname or "", user, password) if by_kerberos else None
