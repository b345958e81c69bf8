"""The table of drivers: a new server is one new file next to this one and one line here.

The module of a driver is imported when the driver is first used: importing all of them takes 0.1 s of CPU time. A
third-party driver is a class that an installed package names in the entry-point group `serverdyno.servers`.
"""

from __future__ import annotations

import secrets
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from serverdyno import wording
from serverdyno.errors import UserError
from serverdyno.lazy import LazyTable
from serverdyno.servers.base import ServerDriver, Settings

GROUP = "serverdyno.servers"
CLASSES = {
    "apache": "apache.Apache",
    "nginx": "nginx.Nginx",
    "lighttpd": "lighttpd.Lighttpd",
    "caddy": "caddy.Caddy",
    "h2o": "h2o.H2o",
    "haproxy": "haproxy.Haproxy",
    "varnish": "varnish.Varnish",
    "team": "team.Team",
    "reference": "reference.Reference",
    "samba": "samba.Samba",
    "reference-smb": "reference_smb.ReferenceSmb",
    "ganesha": "ganesha.Ganesha",
    "reference-nfs": "reference_nfs.ReferenceNfs",
    "seaweedfs": "seaweedfs.Seaweedfs",
    "rclone": "rclone.Rclone",
    "versitygw": "versitygw.Versitygw",
    "minio": "minio.Minio",
    "garage": "garage.Garage",
    "reference-s3": "reference_s3.ReferenceS3",
    "external": "external.External",
}
"""Module and class of each driver, by the driver's name."""


def _imported(name: str) -> type[ServerDriver]:
    module, _, driver = CLASSES[name].partition(".")
    found: type[ServerDriver] = getattr(import_module(f"serverdyno.servers.{module}"), driver)
    return found


DRIVERS = LazyTable(CLASSES, _imported)


def _from_outside() -> Iterator[tuple[str, type[ServerDriver]]]:
    """Yield the drivers of installed packages. Warn about those that can't be loaded or whose names are taken."""
    for point in entry_points(group=GROUP):
        if point.name in DRIVERS:
            warnings.warn(f"{point.value}: a driver called {point.name} already exists", stacklevel=2)
            continue
        try:
            yield point.name, point.load()
        except Exception as error:  # noqa: BLE001 (a third-party package)
            warnings.warn(f"{point.value} can't be loaded as a driver: {error}", stacklevel=2)


DRIVERS.update(_from_outside())


def settings_types() -> Mapping[str, type[Settings]]:
    """Return the settings model of every server, for the check of plans."""
    return LazyTable(DRIVERS, lambda name: DRIVERS[name].settings_type)


def driver_type(name: str) -> type[ServerDriver]:
    """Return the driver called `name`. Raises UserError with the known names."""
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
    """Create a driver with its own private directory. Raises UserError.

    The driver's `settings_type` checks `settings`. `url` is required for servers that the user runs, and invalid for
    others.
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
