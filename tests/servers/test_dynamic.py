"""The dynamic page on real servers: every carrier of every server gives the same page.

The page is checked before and under load, and each fault is reported by its kind.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from serverdyno import _native
from serverdyno.errors import ServerError, UserError
from serverdyno.plan import suites
from serverdyno.plan.model import Suite
from serverdyno.plan.protocols.documents import DOCUMENTS
from serverdyno.plan.protocols.http import HTTP, HttpSettings
from serverdyno.plan.validate import check_plan
from serverdyno.report.subjects.reproduce import as_toml
from serverdyno.servers import dynamic
from serverdyno.servers.apache import Apache
from serverdyno.servers.documents import document_root
from serverdyno.servers.dynamic import apache_module
from serverdyno.servers.registry import DRIVERS, create, settings_types
from serverdyno.servers.running import running
from serverdyno.servers.web import WebServer
from serverdyno.store.experiment import Experiment
from support.dynamic_page import BOTH, counts, loaded
from support.dyno_process import INSTALLED, Home

CARRIERS: list[tuple[str, dict[str, Any]]] = [
    ("apache", {"dynamic": "cgi", "workers": 64}),
    ("apache", {"dynamic": "cgi", "mpm": "prefork", "workers": 8}),
    ("apache", {"dynamic": "fastcgi", "workers": 64}),
    ("apache", {"dynamic": "in-process", "workers": 64}),
    ("apache", {"dynamic": "native", "workers": 64}),
    ("nginx", {"dynamic": "fastcgi"}),
    ("nginx", {"dynamic": "in-process"}),
    ("lighttpd", {"dynamic": "cgi"}),
    ("lighttpd", {"dynamic": "fastcgi", "workers": 1}),
    ("lighttpd", {"dynamic": "in-process"}),
    ("caddy", {"dynamic": "fastcgi"}),
    ("h2o", {"dynamic": "fastcgi"}),
    ("reference", {}),
]
APACHE_CGI = {"dynamic": "cgi", "workers": 64} if "apache" in INSTALLED else {}
SOFTWARE = {
    "apache": "Apache/",
    "nginx": "nginx/",
    "lighttpd": "lighttpd/",
    "caddy": "Caddy/",
    "h2o": "h2o/",
    "reference": "serverdyno-reference/",
}


def named(case: tuple[str, dict[str, Any]]) -> str:
    return "-".join([case[0], *map(str, case[1].values())])


def needs(name: str) -> None:
    if DRIVERS[name].installed() is None:
        pytest.skip(f"{name} is not installed here: run tools/install-servers.sh")


@pytest.mark.parametrize("case", CARRIERS, ids=named)
def test_each_carrier_gives_the_page_in_the_clear_and_over_tls_under_load(
    case: tuple[str, dict[str, Any]],
) -> None:
    name, settings = case
    needs(name)
    if settings.get("dynamic") == "native" and shutil.which("apxs") is None:
        pytest.skip("apxs is not installed here: run tools/install-servers.sh")
    with running(name, {**settings, **BOTH}) as server:
        carrier = settings.get("dynamic", "native")
        said = [note for note in server.describe().notes if "dynamic page" in note]
        assert len(said) == 2 and "in the clear" in said[0] and "over TLS" in said[1]
        for note, port in zip(said, server.ports(), strict=True):  # type: ignore[attr-defined]
            assert SOFTWARE[name] in note and f"port {port} ({carrier})" in note
        result = loaded(server, shares={"secure_share": 0.3, "dynamic_share_of_secure": 0.5})
    assert result["errors"] == []
    found = counts(result)
    assert all(found[kind] > 0 for kind in ("static", "dynamic", "static over TLS", "dynamic over TLS")), (
        found
    )
    page_bytes = {
        row["bytes_read"] / row["count"]
        for row in result["by_operation"]
        if "dynamic" in row["operation"] and row["count"]
    }
    assert page_bytes == {1024}


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("apache", {"dynamic": "fastcgi", "workers": 64}),
        ("lighttpd", {"dynamic": "fastcgi"}),
        ("reference", {}),
    ],
)
def test_pages_come_over_http2_in_the_clear_and_over_tls(name: str, settings: dict[str, Any]) -> None:
    needs(name)
    speaks = {"version": "2", "streams": 4}
    shares = {"secure_share": 0.4, "dynamic_share_of_secure": 0.5}
    with running(name, {**settings, **BOTH, "http2": True}) as server:
        result = loaded(server, shares=shares, speaks=speaks, threads=8)
    assert result["errors"] == []
    found = counts(result)
    assert all(found[kind] > 0 for kind in ("static", "dynamic", "static over TLS", "dynamic over TLS")), (
        found
    )
    [row] = result["requests"]
    assert row["count"] >= result["operations_total"]


def test_no_number_of_a_page_comes_twice_in_the_clear_or_over_tls() -> None:
    needs("nginx")
    shares = {"secure_share": 0.5, "dynamic_share_of_secure": 1.0}
    with running("nginx", {"dynamic": "fastcgi", "access_log": True, **BOTH}) as server:
        result = loaded(server, shares=shares, clients=4)
        logs = [file.read_text() for file in server.directory.rglob("*access*") if file.is_file()]  # type: ignore[attr-defined]
    assert result["errors"] == []
    numbers = re.findall(r"/cgi-bin/dyno\?n=([0-9a-f]{16})", "".join(logs))
    assert len(numbers) > result["operations_total"] / 3
    assert len(set(numbers)) == len(numbers)


def test_the_server_counts_what_was_asked_for_on_both_ports() -> None:
    with running("reference", BOTH) as server:
        before = server.requests_served()
        result = loaded(
            server, keep_alive=False, shares={"secure_share": 0.4, "dynamic_share_of_secure": 0.5}
        )
        after = server.requests_served()
    assert result["errors"] == [] and before is not None and after is not None
    assert after - before == result["operations_total"]
    assert sum(row["count"] for row in result["handshakes"]) > 0


class BrokenApache(Apache):
    """Apache with another program for the dynamic page."""

    page_program = Path("/nonexistent")


@contextmanager
def apache_with(program: str, **settings: Any) -> Iterator[WebServer[Any]]:
    """Prepare Apache with a page from a shell script, in which `@page@` stands for the right program."""
    needs("apache")
    with tempfile.TemporaryDirectory(prefix="serverdyno-program-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        right = directory / "right"
        right.write_bytes(dynamic.PROGRAM.read_bytes())
        right.chmod(0o755)
        script = directory / "script"
        script.write_text(f"#!/bin/sh\nbroken={directory}/broken\n{program}\n".replace("@page@", str(right)))
        server = create("apache", {"dynamic": "cgi", "workers": 64, **settings}, documents=document_root())
        assert isinstance(server, Apache)
        broken = BrokenApache(server.settings, server.directory, server.documents)
        broken.page_program = script  # type: ignore[misc]
        try:
            broken.prepare()
            broken.start()
            yield broken
        finally:
            broken.stop()


def answering(body: str) -> str:
    return f"printf 'Content-Type: text/html\\r\\n\\r\\n'; {body}"


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (answering("printf short"), "has 5 bytes, not 1,024"),
        ("echo this is no head of CGI", "failed: the server answered with status 500"),
        ("exit 3", "failed: the server answered with status 500"),
        (answering("head -c 1024 /dev/zero"), "does not match its request"),
        ('QUERY_STRING=another exec "@page@"', "does not match its request"),
        ("exec sleep 40", "did not send its dynamic page"),
    ],
    ids=["short", "no-head", "fails", "other-content", "cached", "hangs"],
)
def test_a_wrong_page_is_told_by_its_kind_before_load(program: str, words: str) -> None:
    with apache_with(program) as server, pytest.raises(ServerError) as caught:
        server.ready()
    assert words in str(caught.value)
    assert caught.value.hint


def test_the_words_of_a_query_are_no_arguments_of_the_program() -> None:
    with running("apache" if "apache" in INSTALLED else "reference", APACHE_CGI) as server:
        for query in ("fastcgi", "beside+/tmp/x+--+/bin/true"):
            answer = server.asked(f"{dynamic.PATH}?{query}")  # type: ignore[attr-defined]
            assert _native.page_check(answer["body"], dynamic.PATH, query), answer


def test_a_missing_program_is_told_before_load() -> None:
    with apache_with("exit 0") as server:
        (server.directory / dynamic.COPY).unlink()
        with pytest.raises(ServerError) as caught:
            server.ready()
    assert re.search(r"does not serve the dynamic page at /cgi-bin/dyno: status 40\d", str(caught.value))
    assert "install" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("wrong", "fault", "side"),
    [
        (answering("printf short"), "wrong_length", "check"),
        ("exit 3", "program_failed", "server"),
        (answering("head -c 1024 /dev/zero"), "wrong_page", "check"),
        ("exec sleep 40", "response_timeout", "server"),
        ("printf 'Status: 404 Not Found\\r\\n\\r\\n'", "no_program", "server"),
    ],
)
def test_a_program_that_goes_wrong_under_load_is_counted_by_its_kind(
    wrong: str, fault: str, side: str
) -> None:
    with apache_with(f'if [ -e "$broken" ]; then {wrong}; else exec "@page@"; fi') as server:
        server.ready()
        (server.page_program.parent / "broken").touch()
        # A late answer is an error only within the window.
        window_s = 3.0 if fault == "response_timeout" else 1.0
        ends: dict[str, Any] = {"timeout_s": 1.0, "length_s": 40.0, "ramp_down_s": 40.0 - window_s}
        result = loaded(server, shares={}, leave_after_errors=1, **ends)
    [error] = result["errors"]
    assert (error["fault"], error["side"]) == (fault, side)
    assert error["advice"] or fault == "wrong_length"
    assert sum(row["errors"] for row in result["by_operation"] if row["operation"] != "GET dynamic") == 0


class ApacheWithoutApxs(Apache):
    """Apache on a machine without apxs."""

    apxs = "apxs-that-is-not-installed"


def test_without_apxs_the_native_module_is_refused_in_words() -> None:
    needs("apache")
    server = create("apache", {"dynamic": "native", "workers": 64}, documents=document_root())
    assert isinstance(server, Apache)
    without = ApacheWithoutApxs(server.settings, server.directory, server.documents)
    try:
        with pytest.raises(ServerError, match="apxs-that-is-not-installed is missing") as caught:
            without.prepare()
    finally:
        without.stop()
    assert "apache2-dev" in (caught.value.hint or "")


def test_a_native_module_that_does_not_compile_is_told_in_the_tools_words(tmp_path: Path) -> None:
    needs("apache")
    tool = tmp_path / "apxs"
    tool.write_text("#!/bin/sh\necho mod_dyno_page.c:1: error: no such header\nexit 1\n")
    tool.chmod(0o755)
    with pytest.raises(ServerError, match="error: no such header"):
        apache_module.build(tmp_path, str(tool))


def test_a_program_that_is_not_built_is_named() -> None:
    server = create("apache", {"dynamic": "cgi"}, documents=document_root())
    assert isinstance(server, Apache)
    broken = BrokenApache(server.settings, server.directory, server.documents)
    try:
        with pytest.raises(ServerError, match="/nonexistent"):
            broken.prepare()
    finally:
        broken.stop()


HEAD = 'name = "p"\ntitle = "t"\n'


@pytest.mark.parametrize(
    ("suite", "server", "settings", "words"),
    [
        ("quick-dynamic", "apache", {}, "by cgi, fastcgi or in-process, but dynamic is 'off'"),
        ("webbench-4.1-dynamic-cgi", "apache", {"dynamic": "fastcgi"}, "by cgi, but dynamic is 'fastcgi'"),
        ("webbench-4.1-dynamic-inprocess-120", "nginx", {"dynamic": "fastcgi"}, "by in-process"),
        ("quick-ecommerce", "nginx", {"dynamic": "fastcgi"}, "also_clear = true"),
        ("webbench-4.1-dynamic-cgi", "reference", {}, "by cgi, but dynamic is 'native'"),
        ("quick-dynamic", "nginx", {"dynamic": "cgi"}, "'fastcgi' or 'in-process'"),
        ("quick-dynamic", "nginx", {"dynamic": "fastcgi", "also_clear": True}, "also_clear requires tls"),
    ],
)
def test_a_plan_whose_server_lacks_what_the_suite_asks_for_is_refused(
    suite: str, server: str, settings: dict[str, Any], words: str
) -> None:
    data = {"name": "p", "suite": suite, "servers": [{"server": server, "settings": settings}]}
    _, problems = check_plan(data, settings_types())
    assert [problem for problem in problems if words in problem.message], problems


@pytest.mark.parametrize(
    ("suite", "server", "settings"),
    [
        ("quick-dynamic", "reference", {}),
        ("quick-ecommerce", "reference", BOTH),
        ("webbench-4.1-dynamic-inprocess", "reference", {}),
        ("webbench-4.1-ecommerce-cgi-120", "lighttpd", {"dynamic": "cgi", **BOTH}),
    ],
)
def test_a_plan_whose_server_has_it_is_taken(suite: str, server: str, settings: dict[str, Any]) -> None:
    data = {"name": "p", "suite": suite, "servers": [{"server": server, "settings": settings}]}
    plan, problems = check_plan(data, settings_types())
    assert plan is not None and problems == []


def suite_over_tls(tls: dict[str, Any], **load: Any) -> Suite:
    """Return the quick e-commerce suite with one connection per request and these TLS settings."""
    speaks = HttpSettings.model_validate({"keep_alive": False, "tls": tls})
    return suites.load("quick-ecommerce").with_settings(HTTP, speaks).model_copy(update=load)


@pytest.mark.parametrize(
    ("server", "words"),
    [
        ({"server": "reference", "settings": BOTH}, None),
        ({"server": "reference", "settings": {"tls": "ecdsa-p256"}}, "also_clear = true"),
        ({"server": "reference"}, "also_clear = true"),
        (
            {
                "server": "external",
                "url": "http://127.0.0.1:8080/",
                "settings": {"secure_url": "https://127.0.0.1:8443/"},
            },
            None,
        ),
        ({"server": "external", "url": "http://127.0.0.1:8080/"}, "secure_url"),
        ({"server": "external", "url": "https://127.0.0.1:8443/"}, "must begin with http://"),
    ],
)
def test_a_suite_of_e_commerce_with_tls_of_its_own_wants_both_ports(
    server: dict[str, Any], words: str | None
) -> None:
    suite = suite_over_tls({"max_version": "1.2"})
    _, problems = check_plan(
        {"name": "p", "suite": suite.name, "servers": [server]}, settings_types(), known=[suite]
    )
    if words is None:
        assert problems == []
    else:
        assert [words in problem.message for problem in problems] == [True], problems


def test_a_suite_all_over_tls_refuses_a_server_that_would_answer_in_the_clear() -> None:
    data = {"name": "p", "suite": "quick-tls"}
    _, problems = check_plan(
        data | {"servers": [{"server": "reference", "settings": BOTH}]}, settings_types()
    )
    assert ["uses TLS" in problem.message for problem in problems] == [True], problems


@pytest.mark.parametrize("name", ["nginx", "reference"])
def test_the_part_over_tls_has_the_version_cipher_resumption_and_key_that_were_asked_for(
    home: Home, tmp_path: Path, name: str
) -> None:
    needs(name)
    cipher = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
    suite = suite_over_tls({"max_version": "1.2", "ciphers": [cipher], "resumption": 1.0}, clients=[4])
    (tmp_path / "suite.toml").write_text(as_toml(suite, "of a test"))
    page = "" if name == "reference" else 'dynamic = "fastcgi", '
    plan, folder = tmp_path / "p.toml", tmp_path / "e"
    plan.write_text(
        f'name = "p"\nsuite = "./suite.toml"\nscale = 0.26\nrepetitions = 1\n[[servers]]\nserver = "{name}"\n'
        f'settings = {{ {page}tls = "rsa-2048", also_clear = true }}\n'
    )
    done = home.dyno("run", plan, "--into", folder)
    assert done.returncode == 0, done.stderr
    [record] = Experiment.open(folder).levels()
    assert record.errors == []
    terms = {(row.version, row.cipher, row.key) for row in record.handshakes}
    assert terms == {("TLS 1.2", cipher, "RSA 2048")}, record.handshakes
    full, resumed = (
        sum(row.count for row in record.handshakes if row.resumed is how) for how in (False, True)
    )
    # Each client has one thread, so only its first connection has no session to offer.
    assert full == 4 and resumed > 0


def test_the_suites_of_2003_have_their_published_shares_and_loads() -> None:
    for name in suites.names():
        if "4.1-dynamic" in name or "4.1-ecommerce" in name:
            suite = suites.load(name)
            settings = suite.settings(DOCUMENTS)
            shares = (settings.dynamic_share, settings.secure_share or 0.0)
            assert shares == ((0.16, 0.08) if "ecommerce" in name else (0.2, 0.0))
            assert settings.carrier and settings.carrier.replace("-", "") in name
            load = suites.load(
                "webbench-4.1-static"
                if not name.endswith(("-120", "15t"))
                else f"webbench-4.1-static-{name.partition('-120')[1:] and '120' + name.partition('-120')[2]}"
            )
            assert (suite.clients, suite.threads) == (load.clients, load.threads)
            assert suite.threads_from == load.threads_from
    with pytest.raises(UserError):
        suites.load("webbench-4.1-dynamic-cgi-121")


def test_the_report_has_results_by_kind_of_content(home: Home, tmp_path: Path) -> None:
    plan, folder = tmp_path / "p.toml", tmp_path / "e"
    plan.write_text(
        'name = "p"\nsuite = "quick-ecommerce"\nscale = 0.26\nrepetitions = 1\n'
        '[[servers]]\nserver = "reference"\nsettings = { tls = "ecdsa-p256", also_clear = true }\n'
    )
    done = home.dyno("run", plan, "--into", folder)
    assert done.returncode == 0, done.stderr
    done = home.dyno("report", folder, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads((folder / "report" / "report.json").read_text())
    tables = [table for section in report["sections"] for table in section["tables"]]
    [content] = [table for table in tables if table["title"].startswith("Results by kind of content")]
    shown = {row[2]["text"]: row for row in content["rows"]}
    assert {"static", "dynamic", "static over TLS", "dynamic over TLS"} <= set(shown)
    assert {row[6]["text"] for row in shown.values()} == {"0"}
    rate = {kind: float(row[3]["text"].replace(",", "")) for kind, row in shown.items()}
    assert rate["static"] > rate["dynamic"] > rate["dynamic over TLS"] > 0
