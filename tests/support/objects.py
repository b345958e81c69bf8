"""A short load on the objects of a bucket, and the bucket's contents, for tests."""

from __future__ import annotations

import os
import subprocess
import urllib.request
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from serverdyno.plan.model import GeneratorPlan, Plan, ServerPlan, Suite
from serverdyno.plan.protocols.objects import ObjectsSettings, Size
from serverdyno.run.create import create_experiment

PARTS: dict[str, Any] = {
    "size": Size(fixed=6_000_000),
    "part_bytes": 5 << 20,
    "objects": 1,
    "weights": {"put": 1},
}
"""Settings of objects that are put in two parts."""
XML = {"Content-Type": "application/xml"}


def set_key(monkeypatch: pytest.MonkeyPatch, folder: Path, key_id: str, secret: str) -> None:
    """Export an access key, and hide the variables and profiles of whoever runs the tests."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(folder / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(folder / "none"))


def error(code: str, text: str) -> bytes:
    """Return the error document of an S3 server."""
    return f"<Error><Code>{code}</Code><Message>{text}</Message></Error>".encode()


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """Return what a command that failed has said."""
    assert done.returncode != 0, done.stdout
    assert "Traceback" not in done.stderr
    return done.stderr


def keys(port: int, what: str = "list-type=2") -> list[str]:
    """Return the keys in the bucket of a server without an access key; `uploads`: those of unfinished uploads."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/volume1?{what}", timeout=60) as answer:
        found = ElementTree.fromstring(answer.read())
    return [f"{each.text}" for each in found.iter() if each.tag.endswith("}Key") or each.tag == "Key"]


def tiny(
    clients: list[int], length_s: float = 0.6, shape: dict[str, Any] | None = None, **settings: Any
) -> Suite:
    """Return a suite with shorter levels than a plan may have. `settings`: settings of the objects."""
    objects = ObjectsSettings(**{"size": Size(fixed=2000), "objects": 8, **settings})
    return Suite.model_validate(
        {
            "name": "tiny",
            "source": "a test",
            "workload": "objects",
            "clients": clients,
            "length_s": length_s,
            "leave_after_errors": None,
            "sections": {"objects": objects},
            **(shape or {}),
        }
    )


def bucket(url: str) -> ServerPlan:
    """Return a plan's server for a user's bucket."""
    return ServerPlan(server="external", name="bucket", url=url)


def planned(folder: Path, suite: Suite, servers: list[ServerPlan], **generator: Any) -> Path:
    """Create an experiment without starting it."""
    plan = Plan(
        name="tiny", suite="tiny", repetitions=1, servers=servers, generator=GeneratorPlan(**generator)
    )
    with create_experiment(folder, "# made by a test\n", plan, [suite]):
        pass
    return folder


def created(
    folder: Path, url: str, clients: list[int], processes: int = 1, length_s: float = 0.6, **settings: Any
) -> Path:
    """Create an experiment on one bucket without starting it."""
    return planned(folder, tiny(clients, length_s, **settings), [bucket(url)], processes=processes)
