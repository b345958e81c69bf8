"""Run in a domain controller's namespaces (`domain.py`): load levels on its share, opened as by a plan. Cases are JSON.

A case has `host`, `settings` of the server `external`, `smb` of the suite, `environment`, and `clock_offset_s`, by
which the KDC is ahead according to the ticket. With `close_share`, the server's configuration file, the share is closed
during the load level. The outcome has `sessions`, `whole`, `errors` and `reconnects`, or `error` and `hint`. A case
with `command`, a command line of `dyno`, and its `environment` gives its `returncode`, `stdout` and `stderr`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

from serverdyno import _native
from serverdyno.errors import DynoError
from serverdyno.fleet.consent import open_target
from serverdyno.fleet.load_setup import LoadSetup
from serverdyno.fleet.preflight import preflight
from serverdyno.plan.expand import levels
from serverdyno.plan.model import GeneratorPlan, Suite
from serverdyno.plan.protocols.smb import SMB, SmbSettings
from serverdyno.servers.registry import create
from support.disk_mix import begun, ended, whole
from support.domain import HOST, with_clock_offset
from support.dyno_process import new_home
from support.file_server import PATIENCE_S

OPERATIONS = 300


def main() -> None:
    print(json.dumps([said(**case) if "command" in case else told(**case) for case in json.load(sys.stdin)]))


def said(command: list[str], environment: dict[str, str]) -> dict[str, Any]:
    """Run a `dyno` command line in this process, which has imported everything already."""
    with new_home() as home:
        done = home.here(*command, **environment)
    return {"returncode": done.returncode, "stdout": done.stdout, "stderr": done.stderr}


def told(
    *,
    host: str = HOST,
    settings: dict[str, Any] | None = None,
    smb: dict[str, Any] | None = None,
    environment: dict[str, str] | None = None,
    clock_offset_s: int | None = None,
    close_share: str | None = None,
    **shape: Any,
) -> dict[str, Any]:
    """Return the outcome of one case."""
    with patch.dict(os.environ, environment or {}):
        try:
            target = opened(host, settings or {}, smb or {}, clock_offset_s)
        except DynoError as error:
            return {"error": str(error), "hint": error.hint}
    result = ended(begun(target, **shape)) if close_share is None else interrupted(target, close_share)
    return {
        "sessions": result["sessions"],
        "whole": whole(result),
        "errors": result["errors"],
        "reconnects": result["reconnects"],
    }


def opened(
    host: str, settings: dict[str, Any], smb: dict[str, Any], clock_offset_s: int | None
) -> _native.Target:
    """Return the target after the first check of a run; raise DynoError if it fails."""
    asked = {"shares": ["data"], "authentication": "kerberos"} | settings
    suite = Suite(
        name="tiny",
        title="Tiny",
        source="a test",
        workload="diskmix",
        clients=[1],
        length_s=1.0,
        sections={"smb": SmbSettings(**smb)},
    )
    driver = create("external", asked, documents=Path(os.devnull), url=f"smb://{host}/")
    driver.ready()
    access = driver.access()
    if clock_offset_s is not None:
        assert access.ticket is not None
        ticket = with_clock_offset(bytes.fromhex(access.ticket), clock_offset_s)
        access = replace(access, ticket=ticket.hex())
    target = open_target(SMB, access, suite.settings(SMB))
    driver.ask(target)
    setup = LoadSetup(suite=suite, target=target, generator=GeneratorPlan(), cpus=(), bounds=None)
    preflight(setup, levels(suite)[0])
    return target


def interrupted(target: _native.Target, configuration: str) -> dict[str, Any]:
    """Return the outcome of a client whose share is closed, and which continues."""
    load = begun(target, files={"cache": "none"}, clients=1, length_s=600.0, leave_after_errors=None)
    wait_until(load, "operations", OPERATIONS)
    command = ["smbcontrol", "-s", configuration, "smbd", "close-share", "data"]
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S)
    wait_until(load, "errors", 1)
    wait_until(load, "operations", load.snapshot()["operations"] + OPERATIONS)
    load.stop()
    return ended(load)


def wait_until(load: _native.Load, counter: Literal["operations", "errors"], count: int) -> None:
    """Wait for this count; the caller of this program limits the time."""
    while load.snapshot()[counter] < count:
        assert not load.wait(0.02)


if __name__ == "__main__":
    main()
