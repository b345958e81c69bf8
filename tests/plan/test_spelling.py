"""Hints name options of `dyno load` and `dyno objects`; under a plan they name its keys."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from serverdyno.plan.spelling import in_plan
from support.places import ROOT

ELSEWHERE = {
    "--compressed",  # of curl
    "--env-file",  # of docker
    "--udp",  # of nfsd
    "--clients",
    "--fleet",
    "--scale",  # of `dyno run`, too
    "--seekers",
    "--no-check",
    "--direct",  # of `dyno bonnie` and `dyno scenario`, which have no plans
}
"""Options in hints that are not turned into keys."""


@pytest.mark.parametrize(
    ("hint", "said"),
    [
        ("use --expect-status 404 (or 410).", "use status = [404] in [http.request] (or 410)."),
        ("use --expect-status 201,409.", "use status = [201, 409] in [http.request]."),
        (
            "If it is right, use --expect-status with it.",
            "If it is right, use status in [http.request] with it.",
        ),
        ("Give it more time with --timeout.", "Give it more time with timeout_s of the suite."),
        ("use --no-keep-alive.", "use keep_alive = false in [http]."),
        ("or leave out --http2.", 'or leave out version = "2" in [http].'),
        ("give -H 'Host: NAME'.", 'give headers = ["Host: NAME"] in [http.request].'),
        (
            "with --resolve NAME:PORT:ADDRESS, or",
            'with connect_to = "ADDRESS" in the server\'s settings, or',
        ),
        ("--insecure accepts any.", 'trust = "anybody" in the server\'s settings accepts any.'),
        ("--ca-file FILE.", 'trust = "FILE" in the server\'s settings.'),
        ("give --auth basic.", 'give authorization = "basic" in [http.request].'),
        (
            "--method POST and --data ''.",
            'method = "POST" in [http.request] and body = "" in [http.request].',
        ),
        ("--length 31s.", "length_s = 31 of the suite."),
        ("(--rate, or --max-rate)", "(rate_per_s in [open], or max_rate_per_s in bounds of the server)"),
        ("give a larger --part-bytes.", "give a larger part_bytes in [objects]."),
        ("name a user (--user), or", "name a user (user in the server's settings), or"),
        ("--payload unsigned", 'payload = "unsigned" in [s3]'),
        ("such as curl --http2 does, or --fleet, --clients 4", None),
        ("No redirect is followed. Location: http://a/b--rate", None),
    ],
)
def test_a_hint_names_the_keys_of_a_plan(hint: str, said: str | None) -> None:
    assert in_plan(hint) == (hint if said is None else said)


def tables() -> list[Path]:
    crates = ROOT / "crates"
    return sorted([*crates.glob("*/src/**/advice.rs"), *crates.glob("*/src/**/advice/*.rs")])


def test_every_option_that_the_tables_of_hints_name_has_a_key() -> None:
    assert len(tables()) > 3
    for table in tables():
        text = re.sub(r"\\\n\s*", "", table.read_text())
        hints = " ".join(re.findall(r'"((?:[^"\\]|\\.)*)"', text))
        left = set(re.findall(r"(?<![\w-])--[a-z][\w-]+", in_plan(hints)))
        assert left <= ELSEWHERE, f"{table}: {left - ELSEWHERE}"
