"""The protocol of a plan's server: the protocol of its driver, or of its URL's scheme.

`validate.py` checks whether a suite can run over it.
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
"""The settings model of every known server, by name."""


def protocol_of_server(server: ServerPlan, settings_types: SettingsTypes) -> str | None:
    """Return the protocol's name; None if neither the driver nor the URL names a known protocol."""
    spoken: str | None = getattr(settings_types.get(server.server), "protocol", None)
    if spoken is not None:
        return spoken
    found = protocols.of_scheme(scheme_of(server.url or ""))
    return None if found is None else found.name


def protocol_of(configuration: Configuration, suite: Suite) -> Protocol[Any]:
    """Return the protocol of a configuration.

    If none was recorded (before format 3), return the default of that time.
    """
    if configuration.protocol is None:
        return protocols.carrying(suite.work)[0]
    return protocols.of(configuration.protocol)


def protocols_of(configurations: Iterable[Configuration], suite: Suite) -> list[Protocol[Any]]:
    """Return the protocols of the configurations, each once, in order."""
    spoken = [protocol_of(configuration, suite) for configuration in configurations]
    return list({protocol.name: protocol for protocol in spoken}.values())


def scheme_of(url: str) -> str:
    """Return the scheme of a URL, or an empty text."""
    try:
        return urlsplit(url).scheme
    except ValueError:
        return ""
