"""Teams of a front and servers behind it."""

from __future__ import annotations

from typing import Any

import pytest

from serverdyno.servers.team import BACKS, FRONTS
from support.dynamic_page import BOTH

SMALL = {"apache": {"workers": 64}, "nginx": {"workers": 1}, "lighttpd": {"workers": 1}}


TEAMS: list[dict[str, Any]] = [
    {"front": "nginx", "back": "apache", "dynamic": "cgi", **BOTH},
    {"front": "nginx", "back": "apache", "dynamic": "in-process", "tls_by": "back", **BOTH},
    {"front": "haproxy", "back": "nginx", "backs": 2, "dynamic": "fastcgi", **BOTH},
    {"front": "varnish", "back": "apache", "dynamic": "fastcgi", "tls_by": "back", **BOTH},
    {"front": "varnish", "back": "lighttpd", "dynamic": "in-process"},
    {"front": "reference", "back": "apache", "dynamic": "cgi", **BOTH},
    {"front": "reference", "back": "apache", "backs": 2, "dynamic": "fastcgi", "tls_by": "back", **BOTH},
]


def team_of(settings: dict[str, Any]) -> dict[str, Any]:
    for kind in (FRONTS[settings["front"]], BACKS[settings["back"]]):
        if kind.installed() is None:
            pytest.skip(f"{kind.name} is not installed here: run tools/install-servers.sh")
    return {**settings, "back_settings": SMALL[settings["back"]]}


def named(settings: dict[str, Any]) -> str:
    return f"{settings['front']}-{settings['back']}-{settings['dynamic']}"
