"""The table of drivers: a new server is one new file next to this one and one line here.

A driver from outside the tree is a class that an installed package names in the entry-point group `serverdyno.servers`.
"""

from __future__ import annotations

import secrets
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from serverdyno import wording
from serverdyno.errors import UserError
from serverdyno.servers.apache import Apache
from serverdyno.servers.base import ServerDriver, Settings
from serverdyno.servers.caddy import Caddy
from serverdyno.servers.external import External
from serverdyno.servers.external_smb import ExternalSmb
from serverdyno.servers.ganesha import Ganesha
from serverdyno.servers.h2o import H2o
from serverdyno.servers.haproxy import Haproxy
from serverdyno.servers.lighttpd import Lighttpd
from serverdyno.servers.nginx import Nginx
from serverdyno.servers.reference import Reference
from serverdyno.servers.reference_nfs import ReferenceNfs
from serverdyno.servers.reference_smb import ReferenceSmb
from serverdyno.servers.samba import Samba
from serverdyno.servers.team import Team
from serverdyno.servers.varnish import Varnish

GROUP = "serverdyno.servers"
DRIVERS: dict[str, type[ServerDriver]] = {
    driver.name: driver
    for driver in (
        *(Apache, Nginx, Lighttpd, Caddy, H2o, Haproxy, Varnish, Team, Reference),
        *(Samba, ReferenceSmb, Ganesha, ReferenceNfs, External, ExternalSmb),
    )
}


def _from_outside() -> Iterator[tuple[str, type[ServerDriver]]]:
    """Drivers of installed packages. One that can't be loaded, or has a name of ours, is left out with a warning."""
    for point in entry_points(group=GROUP):
        if point.name in DRIVERS:
            warnings.warn(f"{point.value}: a driver called {point.name} is there already", stacklevel=2)
            continue
        try:
            yield point.name, point.load()
        except Exception as error:  # noqa: BLE001 (a stranger's package)
            warnings.warn(f"{point.value} can't be loaded as a driver: {error}", stacklevel=2)


DRIVERS |= dict(_from_outside())


def settings_types() -> dict[str, type[Settings]]:
    """The settings model of every server, for who checks plans."""
    return {name: driver.settings_type for name, driver in DRIVERS.items()}


def driver_type(name: str) -> type[ServerDriver]:
    """The driver called `name`. Raises UserError that names those there are."""
    try:
        return DRIVERS[name]
    except KeyError:
        raise UserError(f"unknown server {name!r}", hint=f"Servers: {', '.join(DRIVERS)}.") from None


def create(
    name: str,
    settings: Mapping[str, Any],
    *,
    documents: Path,
    cpus: Sequence[int] = (),
    url: str | None = None,
) -> ServerDriver:
    """A driver with a private directory of its own. Raises UserError.

    `settings` are checked by the driver's `settings_type`. `url` is for those that the user runs, which
    need it, and for no other.
    """
    driver = driver_type(name)
    try:
        checked = driver.settings_type.model_validate(dict(settings))
    except ValidationError as error:
        problems = "; ".join(
            ": ".join([*map(str, part["loc"]), wording.refusal(part)]) for part in error.errors()
        )
        raise UserError(
            f"settings of {name!r}: {problems}", hint=f"`dyno servers {name}` lists the settings."
        ) from None
    directory = Path(tempfile.gettempdir()) / f"serverdyno-{name}-{secrets.token_hex(8)}"
    return driver(checked, directory, documents, cpus, url)
