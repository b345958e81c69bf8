"""`dyno objects URL`. Its options are fields of suites and plans: see `plan/quick_objects.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from serverdyno.cli.fields import add
from serverdyno.cli.load import AsJson, Into, ReportToo
from serverdyno.cli.run import Fleet

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

EXAMPLE = "Example: dyno objects s3://127.0.0.1:8333/bucket --clients 1,4,16 --length 10s"


def register(app: typer.Typer) -> None:
    add(app, "objects", objects, _fields, epilog=EXAMPLE)


def _fields() -> Mapping[str, FieldInfo]:
    from serverdyno.plan.quick_objects import fields  # noqa: PLC0415

    return fields()


def objects(
    url: Annotated[str, typer.Argument(help="The bucket: s3://HOST:PORT/BUCKET[/PREFIX], or s3s:// for TLS")],
    given: dict[str, Any],
    fleet: Fleet = None,
    report: ReportToo = False,
    into: Into = None,
    as_json: AsJson = False,
) -> None:
    """Load a bucket of an S3 server with more and more clients, and delete the clients' objects at the end.

    The access key comes from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or from the AWS profile.
    """
    from serverdyno.cli.load import measure  # noqa: PLC0415
    from serverdyno.plan.quick_objects import objects_plan  # noqa: PLC0415

    measure(lambda: objects_plan(url, given), fleet, report=report, into=into, as_json=as_json)
