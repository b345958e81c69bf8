"""The access key and the region of an object server, from the usual AWS variables and profile files.

No setting contains a key, because reports disclose settings. The variables take precedence over the profile, as in the
AWS CLI.
"""

from __future__ import annotations

import configparser
import os
import re
from collections.abc import Mapping
from pathlib import Path

from serverdyno.errors import UserError, refuse_pipe
from serverdyno.plan.protocols.access import US_EAST_1, AccessKey

ID, SECRET, TOKEN = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"
REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
PROFILES = ("AWS_PROFILE", "AWS_DEFAULT_PROFILE")
CREDENTIALS_FILE, CONFIG_FILE = "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"
OTHER_SOURCES = ("sso_session", "sso_start_url", "role_arn", "credential_process", "web_identity_token_file")
"""Profile keys which show that only the AWS CLI can get the access key."""

ODD = r"[^\x20-\x7e]"
"""A character that no part of an access key has."""
AGAIN = "Copy it again from its source."


def access_key() -> AccessKey | None:
    """Return the access key from the environment or the profile; None if there is none. Raises UserError."""
    given = [name for name in (ID, SECRET) if os.environ.get(name)]
    if len(given) == 1:
        [absent] = {ID, SECRET} - set(given)
        raise UserError(
            f"the variable {absent} is {'empty' if absent in os.environ else 'not set'}, but {given[0]} is set",
            hint=f"export {absent}=..., or unset {given[0]}.",
        )
    if given:
        return _variable(ID), _variable(SECRET), _variable(TOKEN) or None
    profile = _profile()
    key, secret, token = (_value(profile, name.lower()) for name in (ID, SECRET, TOKEN))
    if key and secret:
        return key, secret, token or None
    if key or secret:
        absent = (SECRET if key else ID).lower()
        raise UserError(
            f"the AWS profile {_name()!r} has half of an access key: {absent} is missing",
            hint=f"Add {absent} to the profile, name another profile in AWS_PROFILE, or export {ID} and {SECRET}.",
        )
    if any(name in profile for name in OTHER_SOURCES):
        raise UserError(
            f"the AWS profile {_name()!r} has no access key of its own",
            hint="Let version 2 of the AWS CLI get one: "
            f'eval "$(aws configure export-credentials --profile {_name()} --format env)". '
            f"Or run the profile's credential_process, and export what it prints as {ID}, {SECRET} and {TOKEN}.",
        )
    if empty := [name for name in (ID, SECRET) if name in os.environ]:
        raise UserError(
            f"set, but empty: {' and '.join(empty)}",
            hint="Give the variables their values. To send requests without a key on purpose, unset them.",
        )
    return None


def region() -> str:
    """Return the region from the environment or the profile, or the default. Raises UserError."""
    named = map(_variable, REGIONS)
    return next(filter(None, named), None) or _profile().get("region") or US_EAST_1


def _variable(name: str) -> str:
    """Return a variable's value, empty if it is not set. Raises UserError, which never quotes the value."""
    value = os.environ.get(name, "")
    if re.search(r"\s", value):
        raise UserError(
            f"the variable {name} has a blank or a line break, such as the carriage return of a file from Windows",
            hint=f"Set {name} again without it. `printenv {name} | wc -c` counts its characters and one more.",
        )
    if re.search(ODD, value):
        raise UserError(f"the variable {name} has a control character, or one that is not ASCII", hint=AGAIN)
    return value


def _value(profile: Mapping[str, str], name: str) -> str:
    """Return a part of a profile's access key, empty if it is absent. Raises UserError, which never quotes it."""
    value = profile.get(name) or ""
    if re.search(rf"\s|{ODD}", value):
        raise UserError(
            f"{name} of the AWS profile {_name()!r} has a blank, a control character, or one that is not ASCII",
            hint=f"{AGAIN} A comment needs a line of its own: after a value, it is a part of the value.",
        )
    return value


def _name() -> str:
    return next(filter(None, map(os.environ.get, PROFILES)), "default")


def _profile() -> Mapping[str, str]:
    """Return the profile's settings from both files; credentials take precedence.

    Raises UserError if the environment names a profile that is in neither.
    """
    name = _name()
    secrets, config = _file(CREDENTIALS_FILE, "credentials"), _file(CONFIG_FILE, "config")
    sections = [(config, f"profile {name}"), (secrets, name)]
    if name == "default":
        sections.insert(0, (config, name))
    found = [parsed[section] for parsed, section in sections if parsed.has_section(section)]
    if not found and any(os.environ.get(each) for each in PROFILES):
        raise UserError(
            f"there is no AWS profile {name!r}",
            hint="`aws configure list-profiles` lists them. To use the variables instead, unset AWS_PROFILE.",
        )
    return {key: value for section in found for key, value in section.items()}


def _file(variable: str, usual: str) -> configparser.ConfigParser:
    """Return a parsed profile file, empty if it does not exist. The error never quotes the file."""
    path = Path(os.environ.get(variable) or f"~/.aws/{usual}").expanduser()
    parsed = configparser.ConfigParser(interpolation=None, strict=False, default_section="")
    try:
        if path.exists():
            parsed.read_string(refuse_pipe(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, configparser.Error) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not an AWS profile file"
        raise UserError(
            f"{path} can't be read: {why}", hint=f"Correct it, or name another file in {variable}."
        ) from None
    return parsed
