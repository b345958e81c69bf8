"""Names of settings in hints. Hints name the options of `dyno load` and `dyno objects`; a plan has keys instead.

Only `in_plan` converts options to keys. Options that `dyno run` also has stay unchanged.
"""

from __future__ import annotations

import functools
import json
import re
from typing import Any

from serverdyno.plan.locate import KeyPath
from serverdyno.plan.model import Plan, Suite
from serverdyno.plan.protocols.access import ANYBODY
from serverdyno.plan.protocols.options import read
from serverdyno.plan.quick_options import Setting

_WORDS = "basic|bearer|kerberos|unsigned|signed|virtual"
_VALUE = rf"'[^']*'|[A-Z][A-Z_]+(?:[:=][A-Z]+)*|\d[\d.,]*(?<![.,])s?|{_WORDS}"
_OPTION = re.compile(
    rf"(?<!curl )(?<![\w`-])(?P<option>--[a-z0-9][a-z0-9-]*|-H)(?![\w-])(?: (?P<value>{_VALUE}))?"
)
_OF_RUN = ("--clients", "--fleet", "--scale")
_KEYS_OF_SERVERS = ("region", "addressing", "user", "authentication")
_REQUEST, _SERVER = "in [http.request]", "in the server's settings"


def in_plan(text: str) -> str:
    """Return a hint with the keys of suites and plans in place of options that `dyno run` lacks."""
    return _OPTION.sub(_key_of, text)


def is_of_options(suite: Suite) -> bool:
    """Return whether a suite was built from options on the command line, so that hints name options."""
    return suite.source.startswith("the options of `dyno ")


def _key_of(found: re.Match[str]) -> str:
    option, value = found["option"], found["value"]
    if option in _OF_RUN:
        return found[0]
    text = "" if value is None else value.strip("'")
    if (written := _written(option, text)) is not None:
        return written
    bare = option.removeprefix("--no-")
    if option.startswith("--no-") and (setting := _settings().get(bare)) is not None:
        return f"{setting.path[-1]} = false {_place(setting)}"
    if (setting := _settings().get(option.removeprefix("--"))) is None:
        return found[0]
    key = f"{setting.path[-1]}"
    return f"{key if value is None else f'{key} = {_toml(text, key, setting)}'} {_place(setting)}"


def _written(option: str, value: str) -> str | None:
    """Return the key for an option that sets no field directly; None if the option sets a field or is unknown."""
    named, shown, given = value or "FILE", value or "...", f" = {json.dumps(value)}" if value else ""
    header = f" = {json.dumps([value])}" if value else ""
    keys = {
        "-H": f"headers{header} {_REQUEST}",
        "--cookie": f"headers = {json.dumps([f'Cookie: {shown}'])} {_REQUEST}",
        "--content-type": f"headers = {json.dumps([f'Content-Type: {shown}'])} {_REQUEST}",
        "--http2": 'version = "2" in [http]',
        "--resolve": f'connect_to = "{value.rpartition(":")[2] or "ADDRESS"}" {_SERVER}',
        "--unix-socket": f'connect_to = "{named}" {_SERVER}',
        "--ca-file": f'trust = "{named}" {_SERVER}',
        "--insecure": f'trust = "{ANYBODY}" {_SERVER}',
        "--session": "a suite with [[documents.steps]]",
        "--urls": "paths in [documents]",
        "--size": "size in [objects]",
        "--mix": "weights in [objects]",
    }
    keys |= {f"--{key}": f"{key}{given} {_SERVER}" for key in _KEYS_OF_SERVERS}
    return keys.get(option)


@functools.cache
def _settings() -> dict[str, Setting]:
    """Return the settings behind the options of both commands, by the option's name without hyphens."""
    from serverdyno.plan import quick, quick_objects  # noqa: PLC0415  they are slow to import, and hints are rare

    both = quick_objects.SETTINGS | quick.SETTINGS
    return {name.replace("_", "-"): setting for name, setting in both.items()}


def _place(setting: Setting) -> str:
    """Return the place of a setting's key: `in [http.request]`."""
    place: KeyPath = setting.path[:-1]
    if "servers" in place:
        return f"in {place[-1]} of the server"
    if place:
        return f"in [{'.'.join(map(str, place))}]"
    return "of the plan" if setting.document is Plan else "of the suite"


def _toml(text: str, key: str, setting: Setting) -> str:
    """Return the value of an option as written in a plan; a placeholder is written as text."""
    value, wrong = read(text, key, setting.field)
    return _plain(text if wrong is not None else value)


def _plain(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value)
