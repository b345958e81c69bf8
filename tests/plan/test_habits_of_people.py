"""Texts that people paste or know from other tools: accepted, or refused with a correction."""

from __future__ import annotations

from typing import Any

import pytest

from serverdyno.errors import PlanError, UserError
from serverdyno.plan.quick import quick_plan
from serverdyno.plan.validate import url_problem

URL = "http://127.0.0.1:9/"


def refusal(url: str = URL, **given: Any) -> str:
    with pytest.raises(PlanError) as raised:
        quick_plan(url, given)
    return "\n".join(raised.value.problems)


@pytest.mark.parametrize(
    ("place", "use"),
    [("0.0.0.0:8000/x?y", "127.0.0.1:8000/x?y"), ("[::]:80/", "127.0.0.1:80/"), ("0/", "127.0.0.1/")],
)
def test_the_address_that_servers_print_is_answered_by_the_one_to_use(place: str, use: str) -> None:
    assert refusal(f"http://{place}").endswith(f"every address of a machine; use http://{use}")
    assert "use smb://127.0.0.1/data" in f"{url_problem('smb://0.0.0.0/data')}"


def test_a_body_or_a_cookie_from_a_file_is_not_sent_as_the_files_name() -> None:
    assert "to send a file, use --data-file body.json" in refusal(data="@body.json")
    assert "'jar.txt' is not name=value" in refusal(cookie=["a=b", "jar.txt"])
    quick_plan(URL, {"data": "a@b", "cookie": ["a=b"]})


@pytest.mark.parametrize(
    ("option", "text", "value"),
    [
        ("clients", "1k,2e3", [1000, 2000]),
        ("clients", "1.5k", [1500]),
        ("clients", "250-1k", [250, 500, 1000]),
        ("clients", "1-4,1k-1.5k", [1, 2, 4, 1000, 1500]),
        ("length", "1500ms", 1.5),
        ("length", "1m30s", 90),
        ("length", "1h", 3600),
        ("timeout", "500ms", 0.5),
        ("length", "90", 90),
    ],
)
def test_numbers_have_the_units_that_other_tools_take(option: str, text: str, value: Any) -> None:
    _, suite, made = quick_plan(URL, {option: text})
    name = {"length": "length_s", "timeout": "timeout_s"}.get(option, option)
    assert getattr(suite, name) == value and text in made


def test_rates_and_statuses_are_written_as_people_say_them() -> None:
    _, suite, _ = quick_plan(URL, {"rate": "1k,2000/s", "expect_status": "2xx,404", "length": "10s"})
    assert suite.open is not None and suite.open.rate_per_s == [1000, 2000]
    assert suite.parameters()["http.request"]["status"] == [*range(200, 300), 404]  # type: ignore[index]
    _, suite, _ = quick_plan(URL, {"rate": "10-5k", "objective": "p99<50ms"})
    assert suite.open is not None and suite.open.rate_per_s == [10, 5000]
    assert quick_plan(URL, {"requests": "100k"})[1].operations == 100_000
    assert quick_plan(URL, {"requests": "1e6", "max_rate": "5k"})[0].servers[0].bounds is not None


@pytest.mark.parametrize(
    ("option", "text", "words"),
    [
        ("clients", "1x", "--clients: must be a whole number, not '1x'"),
        ("clients", "0.1k5", "--clients: must be a whole number"),
        ("clients", "1k-1", "--clients: must be a whole number"),
        ("clients", "1k-x", "--clients: must be a whole number, not '1k-x'"),
        ("length", "1m 30s", "'1m 30s' is not a length like 10s, 500ms or 1m30s"),
        ("length", "5x", "'5x' is not a length"),
        ("rate", "0.5", "--rate: for less than one request per second, use --clients 1 --think 2s"),
        ("expect_bytes", "1k", "--expect-bytes: must be a whole number, not '1k'"),
        ("expect_status", "6xx", "--expect-status: must be a whole number, not '6xx'"),
    ],
)
def test_other_units_are_refused(option: str, text: str, words: str) -> None:
    assert words in refusal(**{option: text})


def test_a_user_in_the_url_is_answered_by_the_option() -> None:
    assert "export DYNO_AUTHORIZATION=user:password, and give --auth basic" in refusal(
        "http://me:x@127.0.0.1:9/"
    )


@pytest.mark.parametrize(
    ("scheme", "secret", "told"),
    [
        ("basic", "", "is empty"),
        ("basic", "me:secret\n", 'DYNO_AUTHORIZATION="$(cat FILE)"'),
        ("bearer", "secret\r\n", "contains a line end"),
        ("bearer", '"secret"', "contains quotation marks"),
        ("basic", "'me:secret'", "DYNO_AUTHORIZATION=user:password"),
        ("bearer", "Bearer secret", "begins with Bearer"),
        ("basic", "Basic c2VjcmV0", "has no colon: give user:password without any encoding"),
    ],
)
def test_a_slip_in_a_variable_is_told_without_its_value(
    monkeypatch: pytest.MonkeyPatch, scheme: str, secret: str, told: str
) -> None:
    monkeypatch.setenv("DYNO_AUTHORIZATION", secret)
    with pytest.raises(UserError) as raised:
        quick_plan(URL, {"auth": scheme})
    said = f"{raised.value} {raised.value.hint}"
    assert told in said and "secret" not in said


@pytest.mark.parametrize(
    ("scheme", "secret"), [("basic", 'me:"x"'), ("basic", "me:a b"), ("bearer", "a.b-c=")]
)
def test_what_only_looks_unusual_is_sent(monkeypatch: pytest.MonkeyPatch, scheme: str, secret: str) -> None:
    monkeypatch.setenv("DYNO_AUTHORIZATION", secret)
    quick_plan(URL, {"auth": scheme})


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("9203", "a port of this machine: http://127.0.0.1:9203/"),
        (":9203", "write http://127.0.0.1:9203"),
        (":9203/a", "write http://127.0.0.1:9203/a"),
        ("<http://127.0.0.1:9/>", "write http://127.0.0.1:9/"),
        ("'http://127.0.0.1:9/'", "write http://127.0.0.1:9/"),
        ("http://local host:9203/", "the host 'local host' has a space: remove it"),
        (
            "http://127.0.0.1:9/a http://127.0.0.1:9/b",
            "give one URL; for several paths of one server, use --urls",
        ),
        ("http://::1:9203/", "write an IPv6 address in brackets, as in http://[::1]:8080/"),
        ("http://$HOST/", "replace a placeholder by the name"),
        ("http://<host>:8080/", "replace a placeholder by the name"),
        ("http://unix:/run/x.sock:/", "--unix-socket FILE"),
        ("http+unix://%2Frun%2Fx.sock/", "--unix-socket FILE"),
        ("unix:///run/x.sock", "--unix-socket FILE"),
        ("wss://127.0.0.1/", "not WebSocket or gRPC"),
        ("grpc://127.0.0.1:9", "not WebSocket or gRPC"),
    ],
)
def test_places_of_other_tools_are_told_with_the_url_to_write(url: str, told: str) -> None:
    said = refusal(url)
    assert told in said and "not on this machine" not in said, said


@pytest.mark.parametrize("data", ['{"a":1}', "@body.json", "a=b"])
def test_a_body_of_curl_is_not_only_no_length(data: str) -> None:
    assert "-d sets the length here; for a body, use --data TEXT" in refusal(length=data)


def test_a_name_that_a_proxy_alone_knows_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:3128")
    with pytest.raises(UserError) as raised:
        quick_plan("http://intranet.invalid/", {})
    assert "dyno uses no proxy, though http_proxy is set" in f"{raised.value.hint}"


@pytest.mark.parametrize("method", ["PURGE", "propfind", "VERSION-CONTROL"])
def test_any_method_but_connect_is_sent(method: str) -> None:
    _, suite, _ = quick_plan(URL, {"method": method})
    assert suite.parameters()["http.request"]["method"] == method.upper()  # type: ignore[index]
    assert "must be a method such as GET or PROPFIND, and not CONNECT" in refusal(method="connect")


@pytest.mark.parametrize(
    ("given", "clients", "at_once"),
    [
        ({"requests": "1"}, 1, 1),
        ({"requests": "5"}, 5, 1),
        ({"requests": "1000"}, 16, 1),
        ({"requests": "5", "http": "2"}, 1, 5),
        ({"requests": "8", "http": "2", "streams": "4"}, 2, 4),
        ({"requests": "10", "http": "2", "clients": "2"}, 2, 5),
        ({"requests": "9", "pipeline": "4"}, 2, 4),
    ],
)
def test_few_requests_take_no_more_clients_than_there_are(
    given: dict[str, str], clients: int, at_once: int
) -> None:
    _, suite, made = quick_plan(URL, given)
    assert (suite.clients, suite.threads) == ([clients], at_once)
    assert f"-n {given['requests']}" in made or f"--requests {given['requests']}" in made


def test_more_clients_than_requests_are_refused_if_the_user_gave_them() -> None:
    refused_as = "must be at least 20, one for each concurrent request"
    with pytest.raises(PlanError, match=refused_as):
        quick_plan(URL, {"requests": "19", "http": "2", "clients": "2", "streams": "10"})
