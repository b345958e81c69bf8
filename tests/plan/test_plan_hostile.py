"""Absurd plans are refused with a message and at once, however large or deep they are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from serverdyno.errors import PlanError, UserError
from serverdyno.plan.load import load_plan
from serverdyno.plan.validate import url_problem
from serverdyno.servers.registry import settings_types
from support.dyno_process import Home

pytestmark = pytest.mark.timeout(300)
HEAD = 'name = "x"\ntitle = "x"\nsuite = "quick-static"\n'
SERVER = '[[servers]]\nserver = "reference"\n'
PLANS = {
    "a number of 5,000 digits": (f"{HEAD}seed = {'9' * 5000}\n{SERVER}", "more digits than can be read"),
    "500 brackets": (f"{HEAD}a = {'[' * 500}{']' * 500}\n{SERVER}", "are nested more than"),
    "100,000 brackets": (f"{HEAD}a = {'[' * 100_000}\n", "are nested more than"),
    "tables are nested more than": (f"{HEAD}a = {'{a=' * 300}1{'}' * 300}\n{SERVER}", "are nested more than"),
    "a key of 5,000 parts": (f"{HEAD}{'.'.join('a' * 5000)} = 1\n", "line 4: a key has more than 32 parts"),
    "a key of 500,000 parts": (f"{'.'.join('a' * 500_000)} = 1\n", "line 1: a key has more than 32 parts"),
    "a table of 5,000 parts": (f"{HEAD}[[{'.'.join('a' * 5000)}]]\n", "line 4: a key has more than 32 parts"),
    "quoted keys": (HEAD + "[" + " . ".join(['"a.b"'] * 300) + "]\n", "line 4: a key has more than 32 parts"),
    "a long key in braces": (f"{HEAD}x = {{a = 1, {'.'.join('a' * 300)} = 1}}\n", "line 4: a key has more"),
    "a text of many lines": (f'{HEAD}y = """{chr(10) * 200_000}"""\n{SERVER}', "y: unknown key"),
    "a list of many lines": (f"{HEAD}y = [{('1,' + chr(10)) * 100_000}]\n{SERVER}", "y: unknown key"),
    "100,000 keys": (HEAD + "".join(f"k{n} = 1\n" for n in range(60_000)) + SERVER, "more"),
    "a number beyond all floats": (f"{HEAD}scale = {'9' * 400}\n{SERVER}", "scale"),
    "an infinite number": (f"{HEAD}scale = inf\n{SERVER}", "scale"),
    "more than is read": (f"# {'x' * (1 << 20)}\n{HEAD}{SERVER}", "more than 1 MiB"),
}


@pytest.mark.parametrize(("text", "said"), PLANS.values(), ids=PLANS)
def test_a_plan_that_nobody_means_is_refused_in_words(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        load_plan(path, settings_types())
    assert said in f"{caught.value}"
    assert len(f"{caught.value}") < 100_000


def test_what_is_no_file_is_no_plan(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(UserError, match="it is not a file"):
            load_plan(path, settings_types())
    with pytest.raises(UserError, match="No such file"):
        load_plan(tmp_path / "none", settings_types())


def test_text_with_many_dots_is_no_key(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(f'name = "x"\ntitle = "{".".join("a" * 300)}"\nsuite = "quick-static"\n{SERVER}')
    assert load_plan(path, settings_types()).plan.title.startswith("a.a")


@pytest.mark.parametrize("host", ["a" * 64, f"{'a' * 60}.{'b' * 64}", "a..b", ".a", ".".join(["a" * 60] * 5)])
@pytest.mark.parametrize("scheme", ["http", "smb"])
def test_a_host_that_no_look_up_can_have_is_refused_in_words(scheme: str, host: str) -> None:
    problem = url_problem(f"{scheme}://{host}/", [scheme])
    assert problem is not None and "has an invalid host" in problem


def test_a_url_without_a_host_has_the_way_to_write_it() -> None:
    for url in ("http:/h/", "http:h:80/", "http:///h", "http://:80/"):
        assert (url_problem(url) or "").endswith("names no host: write http://HOST/PATH"), url


def test_hosts_that_can_be_looked_up_are_not() -> None:
    for host in ("a", "files.example.", f"{'a' * 63}.example", "[::1]", "127.0.0.1"):
        assert url_problem(f"smb://{host}/", ["smb"]) is None


def test_all_problems_of_a_plan_are_counted_and_the_first_hundred_named() -> None:
    error = PlanError("plan.toml", [f"problem {number}" for number in range(1000)])
    assert f"{error}".startswith("plan.toml: 1000 problems\n  problem 0\n")
    assert f"{error}".endswith("  problem 99\n  and 900 more")


def test_what_a_terminal_obeys_does_not_reach_it(home: Home, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(f'{HEAD}"\\u001b[2J\\u0007" = 1\n{SERVER}', encoding="utf-8")
    done = home.here("plan", "check", plan)
    assert done.returncode == 2
    assert "\x1b" not in done.stderr and "\x07" not in done.stderr and "unknown key" in done.stderr


@pytest.mark.parametrize("verb", ["plan", "tree"])
def test_a_path_that_a_terminal_obeys_is_cleaned_where_it_is_printed(
    home: Home, tmp_path: Path, verb: str
) -> None:
    path = tmp_path / os.fsdecode(b"\x1b]0;title\x07 \xff :warning: x.toml")
    if verb == "plan":
        path.write_text(f"{HEAD}{SERVER}")
        done = home.here("plan", "check", path)
    else:
        path.mkdir()
        done = home.here("tree", path)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout and "\x07" not in done.stdout
    assert "]0;title\ufffd \ufffd :warning: x.toml" in done.stdout


def test_a_bad_load_file_is_not_quoted_at_length(home: Home, tmp_path: Path) -> None:
    suite, plan, load = tmp_path / "suite.toml", tmp_path / "plan.toml", tmp_path / "load.txt"
    load.write_text(f"\x1b]0;title\x07{'secret' * 1_000_000} 0x1\n")
    suite.write_text(
        'name = "replayed"\ntitle = "x"\nsource = "a test"\nworkload = "loadfile"\nclients = [1]\nlength_s = 2\n'
        f'[files]\nload_file = "{load}"\n[certainty]\n'
    )
    plan.write_text(f'{HEAD}[[servers]]\nserver = "reference-smb"\n')
    done = home.here("run", plan, "--suite", suite, "--into", tmp_path / "e")
    assert done.returncode != 0 and "Traceback" not in done.stderr
    told = next(line for line in done.stderr.splitlines() if "can't be replayed" in line)
    assert "\x1b" not in done.stderr and len(told) < 500 and told.count("secret") <= 7
