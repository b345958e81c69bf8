"""Which protocol a server of a plan speaks: its driver's, or that of its URL's scheme.

Not for: whether a suite can be carried out over it, see `validate.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel

from serverdyno.plan import protocols
from serverdyno.plan.model import Configuration, ServerPlan, Suite
from serverdyno.plan.protocols.base import Protocol

SettingsTypes = Mapping[str, type[BaseModel]]
"""The settings model of every server there is, by the server's name."""


def protocol_of_server(server: ServerPlan, settings_types: SettingsTypes) -> str | None:
    """Return the name of the protocol; None: neither the driver nor the URL tells one that is known."""
    spoken: str | None = getattr(settings_types.get(server.server), "protocol", None)
    if spoken is not None:
        return spoken
    found = protocols.of_scheme(scheme_of(server.url or ""))
    return None if found is None else found.name


def protocol_of(configuration: Configuration, suite: Suite) -> Protocol[Any]:
    """Return what a configuration speaks; where it is not recorded, what carried such suites before format 3."""
    if configuration.protocol is None:
        return protocols.carrying(suite.work)[0]
    return protocols.of(configuration.protocol)


def protocols_of(configurations: Iterable[Configuration], suite: Suite) -> list[Protocol[Any]]:
    """Return what they all speak, each protocol once, in the order of the configurations."""
    spoken = [protocol_of(configuration, suite) for configuration in configurations]
    return list({protocol.name: protocol for protocol in spoken}.values())


def scheme_of(url: str) -> str:
    """Return the scheme of a URL, empty where there is none."""
    try:
        return urlsplit(url).scheme
    except ValueError:
        return ""
