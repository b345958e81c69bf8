"""Plans written by people who know another format: accepted, or refused with the line and a correction."""

from __future__ import annotations

from pathlib import Path

import pytest

from serverdyno.errors import PlanError, UserError
from serverdyno.plan.load import load_plan
from serverdyno.servers.registry import settings_types

HEAD = 'name = "p"\nsuite = "quick-static"\n'
SERVER = '[[servers]]\nserver = "nginx"\n'


def refusal(folder: Path, text: str) -> str:
    """Return the output of the check of a plan."""
    file = folder / "plan.toml"
    file.write_text(text)
    with pytest.raises(PlanError) as raised:
        load_plan(file, settings_types())
    return "\n".join(raised.value.problems)


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ('suite = "C:\\users\\me.toml"\n', 1, "a backslash begins an escape in \"...\": write '...'"),
        ('name = "p"\nsuite = "D:\\data"\n', 2, "a backslash begins an escape"),
        (
            "name: p\nsuite: quick-static\n",
            1,
            'looks like YAML (`name: ...`), but plans, suites and sessions are TOML (`name = "..."`)',
        ),
        ('name = "p"\nservers:\n  - server: nginx\n', 2, "looks like YAML"),
        ('{"name": "p"}\n', 1, "looks like JSON"),
        ('import http from "k6/http";\n', 1, "this looks like a program"),
        ('name = "p"\nname = "q"\n', 2, "name appears a second time"),
        ("name = \u201cp\u201d\n", 1, "the quotation marks are typographic"),
        ('name\u00a0= "p"\n', 1, "an invisible character"),
        ("name = p\n", 1, 'text must be in quotation marks: name = "..."'),
        ("suite = quick-static\n", 1, 'suite = "..."'),
        (f"{HEAD}repetitions = 3,\n", 3, "a line ends without a comma"),
        (f"{HEAD}// a comment\n", 3, "a comment begins with #"),
        (f"{HEAD}{SERVER}settings = {{ access_log = True }}\n", 5, "write true or false"),
        ('name = "p\nsuite = "s"\n', 1, "a quotation mark may be missing at the end of this line"),
        (f'{HEAD}{SERVER}[servers]\nserver = "caddy"\n', 5, "begins with [[NAME]]"),
    ],
)
def test_text_that_is_not_toml_has_its_cause(tmp_path: Path, text: str, line: int, told: str) -> None:
    said = refusal(tmp_path, text)
    assert f"(at line {line}," in said and told in said, said


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f'{HEAD}[servers]\nserver = "nginx"\n', "line 3: servers: must be a list, not "),
        (f'{HEAD}[servers]\nserver = "nginx"\n', ": write [[servers]], because there may be several"),
        (f"{HEAD}{SERVER}[[generator]]\nprocesses = 1\n", ": write [generator], because there is only one"),
        (
            f"{HEAD}{SERVER}[servers.factors]\naccess_log = true\n",
            "must be a list, not true: write access_log = [true], and a single level belongs in settings",
        ),
        (f"{HEAD}{SERVER}cpus = 1\n", "must be a list, not 1: write cpus = [1]"),
        (f'{HEAD}{SERVER}cpus = "0, 1"\n', "write cpus = [0, 1]"),
        (f"{HEAD}{SERVER}settings = {{ access_log = [true] }}\n", ": write access_log = true"),
        (f'{HEAD}{SERVER}settings = {{ access_log = "True" }}\n', ": write access_log = true"),
        (f'{HEAD}repetitions = "3"\n{SERVER}', "must be a whole number, not '3': write repetitions = 3"),
        (f'{HEAD}repetitions = "many"\n{SERVER}', "must be a whole number, not 'many'"),
    ],
)
def test_a_value_of_another_kind_is_told_with_the_right_spelling(
    tmp_path: Path, text: str, told: str
) -> None:
    assert told in refusal(tmp_path, text)


def test_a_byte_order_mark_of_windows_is_no_mistake(tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    file.write_text(f"{HEAD}{SERVER}", encoding="utf-8-sig")
    assert load_plan(file, settings_types()).plan.name == "p"


def files_of(url: str) -> str:
    return f'name = "p"\nsuite = "quick-files"\n[[servers]]\nserver = "external"\nurl = "{url}"\n'


def test_the_share_of_a_file_server_may_stand_in_the_url_alone(tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    file.write_text(files_of("smb://127.0.0.1:4460//data//below/"))
    [server] = load_plan(file, settings_types()).plan.servers
    assert server.url == "smb://127.0.0.1:4460/data/below/"
    # RFC 2224, 5.2 writes absolute paths with two slashes.
    file.write_text(files_of("NFS://127.0.0.1//a/b/?vers=4.2"))
    [server] = load_plan(file, settings_types()).plan.servers
    assert server.url == "nfs://127.0.0.1/a/b/?vers=4.2"
    said = refusal(tmp_path, files_of("smb://127.0.0.1:4460/"))
    assert said.startswith("line 5: servers[0].url: names no share: write smb://HOST/SHARE"), said


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("smb://127.0.0.1/data?vers=3.1.1", "URLs of SMB have none: a suite sets the dialect"),
        ("sftp://127.0.0.1/data", "dyno does not speak it: mount it (sshfs)"),
    ],
)
def test_a_url_that_no_server_of_files_has_is_told(tmp_path: Path, url: str, told: str) -> None:
    assert told in refusal(tmp_path, files_of(url))


def test_certificates_are_looked_for_beside_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plans").mkdir()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    plan = tmp_path / "plans" / "p.toml"
    plan.write_text(
        'name = "p"\nsuite = "quick-static"\n[[servers]]\nserver = "external"\nurl = "https://127.0.0.1/"\n'
        'settings = { trust = "ca.pem" }\n[[servers]]\nserver = "external"\nname = "any"\n'
        'url = "https://127.0.0.1/"\nsettings = { trust = "anybody" }\n'
    )
    with pytest.raises(
        PlanError, match=r"line 6: servers\[0\].settings.trust: .*/plans/ca.pem does not exist"
    ):
        load_plan(plan, settings_types())
    (tmp_path / "plans" / "ca.pem").touch()
    loaded = load_plan(plan, settings_types()).plan
    assert [server.settings["trust"] for server in loaded.servers] == [
        str(tmp_path / "plans" / "ca.pem"),
        "anybody",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"{HEAD}[http]\nkeep_alive = true\n{SERVER}", "http: unknown key; it belongs in the suite"),
        (f"{HEAD}keep_alive = true\n{SERVER}", "keep_alive: unknown key; it belongs in [http] of the suite"),
        (
            f"{HEAD}{SERVER}max_clients = 2\n",
            "max_clients: unknown key; it belongs in [servers.bounds] of the plan",
        ),
        (f"{HEAD}{SERVER}workers = 2\n", "A setting of the server belongs in settings = { workers = ... }"),
        (
            f'{HEAD}{SERVER}settings = {{ url = "http://a/" }}\n',
            "url: unknown key; it belongs in [[servers]] of the plan",
        ),
        (f'{HEAD}{SERVER}sever = "a"\n', "sever: unknown key; did you mean server"),
    ],
)
def test_a_key_in_the_wrong_table_is_told_its_place(tmp_path: Path, text: str, told: str) -> None:
    assert told in refusal(tmp_path, text)


def test_a_suite_beside_the_plan_without_its_suffix_is_told(tmp_path: Path) -> None:
    (tmp_path / "own.toml").touch()
    (tmp_path / "plan.toml").write_text(f'name = "p"\nsuite = "own"\n{SERVER}')
    with pytest.raises(UserError, match=r'no suite "own" is shipped, but there is .*own\.toml') as raised:
        load_plan(tmp_path / "plan.toml", settings_types())
    assert raised.value.hint == 'For your own file, give its whole name: "own.toml".'
