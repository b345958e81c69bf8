"""Texts that people paste or are used to from other tools: taken, or refused with what to write."""

from __future__ import annotations

from typing import Any

import pytest

from serverdyno.errors import PlanError
from serverdyno.plan.quick import quick_plan
from serverdyno.plan.validate import url_problem

URL = "http://127.0.0.1:9/"


def refusal(url: str = URL, **given: Any) -> str:
    """Return what `dyno load` says about its options."""
    with pytest.raises(PlanError) as raised:
        quick_plan(url, given)
    return "\n".join(raised.value.problems)


@pytest.mark.parametrize(
    ("place", "use"),
    [("0.0.0.0:8000/x?y", "127.0.0.1:8000/x?y"), ("[::]:80/", "127.0.0.1:80/"), ("0/", "127.0.0.1/")],
)
def test_the_address_that_servers_print_is_answered_by_the_one_to_use(place: str, use: str) -> None:
    assert refusal(f"http://{place}").endswith(f"listens at every address: use http://{use}")
    assert "use smb://127.0.0.1/data" in f"{url_problem('smb://0.0.0.0/data')}"


def test_a_body_or_a_cookie_from_a_file_is_not_sent_as_the_files_name() -> None:
    assert "a body from a file is --data-file body.json" in refusal(data="@body.json")
    assert "'jar.txt' is not name=value" in refusal(cookie="jar.txt")
    quick_plan(URL, {"data": "a@b", "cookie": "a=b"})
