"""Suites of objects, and the plan of `dyno objects`: what they send to the data plane, and what they refuse."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from serverdyno.errors import PlanError
from serverdyno.plan import suites
from serverdyno.plan.load import parse_plan
from serverdyno.plan.protocols.access import Access
from serverdyno.plan.protocols.objects import OBJECTS, ObjectsSettings
from serverdyno.plan.protocols.s3 import S3, S3Settings
from serverdyno.plan.quick_objects import objects_plan
from serverdyno.servers.registry import settings_types

URL = "s3://127.0.0.1:8333/bucket"
SUITE = """
name = "s"
source = "a test"
workload = "objects"
clients = [1]
length_s = 9
[objects]
"""


def test_the_mixed_suite_has_the_published_operations_and_size() -> None:
    settings = suites.load("objects-mixed").settings(OBJECTS)
    assert settings.weights == {"get": 45, "put": 15, "head": 30, "delete": 10}
    assert settings.size.section() == {"fixed": 10 * 2**20}


def test_the_large_suite_puts_multipart_uploads_and_the_listing_suite_has_100_000_keys() -> None:
    large = suites.load("objects-large").settings(OBJECTS)
    assert 0 < large.part_bytes < large.size.most_bytes == 64 * 2**20
    listing = suites.load("objects-listing")
    assert listing.clients[-1] * listing.settings(OBJECTS).objects == 100_000


@pytest.mark.parametrize(
    ("size", "section", "words"),
    [
        ("{ fixed = 4096 }", {"fixed": 4096}, "4,096 bytes"),
        (
            "{ listed = [{ bytes = 10, weight = 3 }, { bytes = 20 }] }",
            {"listed": [[10, 3], [20, 1]]},
            "10 bytes (75\xa0%) and 20 bytes (25\xa0%)",
        ),
        (
            "{ lognormal = { median_bytes = 1000, sigma = 1.5, most_bytes = 5000 } }",
            {"lognormal": {"median_bytes": 1000, "sigma": 1.5, "most_bytes": 5000}},
            "a median of 1,000 bytes",
        ),
    ],
)
def test_sizes_are_fixed_listed_or_lognormal(size: str, section: dict[str, Any], words: str) -> None:
    settings = suites.parse(f"{SUITE}size = {size}\n", "s.toml").settings(OBJECTS)
    assert OBJECTS.workload_section("objects", settings)["size"] == section
    assert words in settings.described()


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("weights = { get = 0 }", "every weight is zero"),
        ("weights = { gett = 1 }", "gett"),
        ("size = {}", "needs either fixed, listed or lognormal"),
        ("size = { fixed = 1, listed = [{ bytes = 1 }] }", "needs either fixed, listed or lognormal"),
        ("part_bytes = 1000", "the smallest part in S3"),
        ("size = { fixed = 100_000_000_000 }\npart_bytes = 5_242_880", "more than 10,000 parts"),
        ("size = { fixed = 6_000_000_000 }\npart_bytes = 0", "S3 accepts no larger object in one PUT"),
        ("shared = true\nweights = { put = 1 }", "requires a weight for get, head or get_range"),
        ('[s3]\npayload = "chunked"\nchecksum = "none"', "requires a checksum"),
    ],
)
def test_what_s3_or_the_work_does_not_allow_is_refused(table: str, expected: str) -> None:
    with pytest.raises(PlanError) as caught:
        suites.parse(f"{SUITE}{table}\n", "s.toml")
    assert expected in " ".join(caught.value.problems)


def test_objects_stay_from_level_to_level_but_not_after_the_last() -> None:
    keeps = [OBJECTS.client_section(ObjectsSettings(), last_level=last)["keep"] for last in (False, True)]
    assert keeps == [True, False]
    without = ObjectsSettings(save_objects=False)
    assert OBJECTS.client_section(without, last_level=False)["keep"] is False


def test_the_target_has_everything_but_the_key() -> None:
    access = Access(URL, access_key=("ID", "secret", None), region="eu-west-1", addressing="virtual")
    section = S3.target_section(access, S3Settings(payload="signed", checksum="crc32c"))
    assert section == {
        "url": URL,
        "region": "eu-west-1",
        "addressing": "virtual",
        "payload": "signed",
        "checksum": "crc32c",
        "trust": "system",
    }


PLAN = """
name = "p"
suite = "quick-objects"
[[servers]]
server = "external"
url = "{url}"
"""


def test_a_bucket_of_this_machine_needs_no_bounds_and_any_other_does() -> None:
    assert parse_plan(PLAN.format(url=URL), "p.toml", settings_types()).servers[0].url == URL
    with pytest.raises(PlanError, match="bounds: missing"):
        parse_plan(PLAN.format(url="s3s://s3.example.com/bucket"), "p.toml", settings_types())


@pytest.mark.parametrize("url", ["s3://127.0.0.1:8333", "s3://bucket", "s3s://127.0.0.1/"])
def test_a_url_without_a_bucket_is_refused_with_how_to_write_it(url: str) -> None:
    with pytest.raises(PlanError, match="names no bucket: write s3://HOST:PORT/BUCKET"):
        parse_plan(PLAN.format(url=url), "p.toml", settings_types())


def test_the_options_become_a_suite_and_a_plan() -> None:
    given = {
        "clients": "1,2",
        "length": "4s",
        "size_bytes": "5000",
        "mix": "get=3,list=1",
        "checksum": "crc64nvme",
        "region": "eu-west-1",
        "objects": "7",
    }
    plan, suite, text = objects_plan(URL, given)
    assert text.startswith("# Made by: dyno objects s3://127.0.0.1:8333/bucket --clients 1,2 --length 4s")
    assert plan.servers[0].settings == {"region": "eu-west-1"}
    settings = suite.settings(OBJECTS)
    assert (settings.weights, settings.size.fixed, settings.objects) == ({"get": 3, "list": 1}, 5000, 7)
    assert suite.settings(S3).checksum == "crc64nvme"
    assert (suite.clients, suite.length_s, suite.ramp_up_s) == ([1, 2], 4, 0.4)


def test_an_open_load_has_its_rates_and_one_number_of_clients() -> None:
    _, suite, _ = objects_plan(URL, {"rate": "10,20"})
    assert suite.open is not None and suite.open.rate_per_s == [10, 20]
    assert suite.clients == [64]


@pytest.mark.parametrize(
    ("url", "given", "expected"),
    [
        ("http://127.0.0.1/b", {}, "URL: "),
        ("s3://127.0.0.1", {}, "URL: names no bucket"),
        ("s3://ID:KEY@127.0.0.1/b", {}, "must not contain a user name or password"),
        ("s3://files.example/b", {}, "--max-rate: required"),
        (URL, {"mix": "get"}, "--mix: 'get' is not a list"),
        (URL, {"mix": "got=1"}, "--mix: "),
        (URL, {"insecure": "true"}, "begins with s3s://"),
        (URL, {"arrivals": "uniform"}, "--arrivals: requires --rate"),
        (URL, {"clients": "4,1"}, "--clients: 1 clients after 4"),
        (URL, {"size_bytes": "-1"}, "--size: "),
        (URL, {"payload": "chunked", "checksum": "none"}, "--payload or --checksum: "),
    ],
)
def test_mistaken_options_are_refused_by_their_names(url: str, given: dict[str, str], expected: str) -> None:
    with pytest.raises(PlanError) as caught:
        objects_plan(url, given)
    assert expected in " ".join(caught.value.problems)


def test_the_command_that_removes_leftovers_names_endpoint_bucket_and_prefix() -> None:
    access = Access("s3s://127.0.0.1:8333/bucket/below")
    command = S3.remove_command(access, "bucket", "below/serverdyno-7")
    assert (
        "aws --endpoint-url https://127.0.0.1:8333 s3 rm --recursive s3://bucket/below/serverdyno-7/"
        in command
    )
    assert "abort-multipart-upload --bucket bucket" in command
    every = S3.remove_command(access, "bucket", "below/serverdyno-*")
    assert "s3://bucket/below/ --exclude '*' --include 'serverdyno-*'" in every
    assert "--prefix below/serverdyno-" in every


def test_names_from_a_strangers_folder_are_one_word_each_of_the_command() -> None:
    access = Access("s3://127.0.0.1:8333/x")
    bucket = "x; touch /tmp/y"
    words = shlex.split(S3.remove_command(access, bucket, "$(z)"))
    assert f"s3://{bucket}/$(z)/" in words
    assert words[words.index("--bucket") + 1] == bucket
    assert words[words.index("--prefix") + 1] == "$(z)/"


def test_only_a_load_level_is_said_to_send_nothing_again() -> None:
    assert "; in a load level, no request is sent again after an error; " in S3.described(
        S3Settings(), "10 s"
    )
