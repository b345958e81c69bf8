"""Reading plans: what is accepted, what is refused, and with which messages."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serverdyno.errors import PlanError, UserError
from serverdyno.plan.expand import configurations, levels, suite_shortened
from serverdyno.plan.load import load_plan, parse_plan
from serverdyno.plan.locate import key_lines
from serverdyno.plan.model import Plan, Suite
from serverdyno.plan.protocols.http import HTTP
from serverdyno.plan.protocols.model import Model
from serverdyno.plan.protocols.smb import SMB
from serverdyno.plan.validate import check_plan, is_loopback, other_spelling, url_problem
from serverdyno.run.remarks import remarks
from serverdyno.servers.ganesha import GaneshaSettings
from serverdyno.servers.registry import DRIVERS
from support.places import ROOT

SETTINGS_TYPES = {name: driver.settings_type for name, driver in DRIVERS.items()}
SHIPPED = sorted((ROOT / "plans").glob("*.toml"))
HEAD = 'name = "p"\ntitle = "t"\nsuite = "quick-static"\n'


def read(servers: str, head: str = HEAD, scale: float | None = None) -> Plan:
    return parse_plan(head + servers, "p.toml", SETTINGS_TYPES, scale)


def refused(text: str, scale: float | None = None) -> tuple[str, ...]:
    with pytest.raises(PlanError) as caught:
        parse_plan(text, "p.toml", SETTINGS_TYPES, scale)
    assert caught.value.exit_status == 2
    return caught.value.problems


def check_refused(servers: str, *expected: str, head: str = HEAD) -> None:
    """Check for exactly these problems, given by their beginnings; the first `[[servers]]` is on line 4."""
    problems = refused(head + servers)
    assert len(problems) == len(expected), problems
    for problem, beginning in zip(problems, expected, strict=True):
        assert problem.startswith(beginning), problem


def names(plan: Plan) -> list[str]:
    return [configuration.name for configuration in configurations(plan, SETTINGS_TYPES)]


def test_the_shipped_plans_are_there() -> None:
    assert {path.stem for path in SHIPPED} >= {
        "demo-three-web-servers",
        "quick-static",
        "veritest-2003-web-dynamic-cgi",
        "webbench-2.0-open-benchmark",
        "webbench-4.1-veritest-2003-tunings",
    }


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_plan_loads_under_its_own_name(path: Path) -> None:
    assert load_plan(path, SETTINGS_TYPES).plan.name == path.stem


def test_a_plan_takes_another_shipped_suite_by_its_name() -> None:
    [path] = [path for path in SHIPPED if path.stem == "quick-static"]
    [suite] = load_plan(path, SETTINGS_TYPES, suite_file=Path("quick-web")).suites
    assert suite.name == "quick-web"


def test_the_tunings_plan_measures_every_combination_of_appendix_c() -> None:
    plan = load_plan(
        next(path for path in SHIPPED if path.stem.endswith("2003-tunings")), SETTINGS_TYPES
    ).plan
    tuned = [
        (settings["access_log"], settings["max_connections_per_child"], settings["mmap_file_cache"])
        for settings in (configuration.settings for configuration in configurations(plan, SETTINGS_TYPES))
    ]
    assert len(set(tuned)) == 8
    assert tuned[0] == (True, 1000, False)
    assert tuned[-1] == (False, 0, True)


def test_all_problems_of_a_plan_come_at_once_with_key_and_line() -> None:
    problems = refused(
        """\
name = "Bad Name"
suit = "quick-static"
suite = "quik-static"
[generator]
cpus = [100000]
[[servers]]
server = "apache"
settings = { mpm = "evnt", worker = 3 }
factors.workers = [
  1, 0,
  "many"]
[[servers]]
server = "ngnix"
cpus = [100000]
[[servers]]
server = "external"
url = "ftp://files/"
[servers.bounds]
max_clients = "some"
"""
    )
    keys = [problem.split(": ")[:-1] for problem in problems]
    assert [tuple(key[:2]) for key in keys] == [
        ("line 1", "name"),
        ("line 2", "suit"),
        ("line 3", "suite"),
        ("line 5", "generator.cpus"),
        ("line 8", "servers[0].settings.mpm"),
        ("line 8", "servers[0].settings.worker"),
        ("line 9", "servers[0].factors.workers"),
        ("line 9", "servers[0].factors.workers"),
        ("line 13", "servers[1].server"),
        ("line 14", "servers[1].cpus"),
        ("line 14", "servers[1].cpus"),
        ("line 17", "servers[2].url"),
        ("line 18", "servers[2].bounds.max_rate_per_s"),
        ("line 18", "servers[2].bounds.max_length_s"),
        ("line 19", "servers[2].bounds.max_clients"),
    ]


def test_a_mistyped_key_is_told_what_it_may_have_meant() -> None:
    (problem,) = refused(HEAD + 'repetition = 3\n[[servers]]\nserver = "nginx"\n')
    assert "did you mean repetitions or most_repetitions?" in problem


def test_a_mistake_in_toml_itself_is_said_with_its_line() -> None:
    (problem,) = refused('name = "p"\ntitle = oops\n')
    assert "line 2" in problem


def test_a_plan_that_is_not_there_is_the_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="can't read"):
        load_plan(tmp_path / "none.toml", SETTINGS_TYPES)


def test_a_plan_that_is_not_text_is_the_users_mistake(tmp_path: Path) -> None:
    path = tmp_path / "binary.toml"
    path.write_bytes(b"name = \xff")
    with pytest.raises(UserError, match="UTF-8"):
        load_plan(path, SETTINGS_TYPES)


@pytest.mark.parametrize(
    ("servers", "expected"),
    [
        ('[[servers]]\nserver = "external"\n', "line 4: servers[0].url: missing"),
        (
            '[[servers]]\nserver = "nginx"\nurl = "http://127.0.0.1/"\n',
            "line 6: servers[0].url: requires a server that you run",
        ),
        (
            '[[servers]]\nserver = "external"\nurl = "http://10.0.0.1/"\n',
            "line 4: servers[0].bounds: missing",
        ),
        (
            '[[servers]]\nserver = "external"\nurl = "http://u:p@127.0.0.1/"\n',
            "line 6: servers[0].url: must not",
        ),
        (
            '[[servers]]\nserver = "external"\nurl = "http://127.0.0.1/"\ncpus = [0]\n',
            "line 7: servers[0].cpus: can",
        ),
        ('[[servers]]\nserver = "nginx"\ncpus = [0, 0]\n', "line 6: servers[0].cpus: names a CPU twice"),
        (
            '[[servers]]\nserver = "nginx"\nsettings.workers = 1\nfactors.workers = [2]\n',
            "line 7: servers[0].factors.workers: is both a factor and a setting",
        ),
        (
            '[[servers]]\nserver = "nginx"\n[[servers]]\nserver = "nginx"\n',
            "line 6: servers[1]: two configurations",
        ),
        (
            '[[servers]]\nserver = "nginx"\nfactors.access_log = [true, true]\n',
            "line 6: servers[0].factors: two combinations",
        ),
    ],
)
def test_a_server_that_does_not_fit_is_refused_for_that_alone(servers: str, expected: str) -> None:
    check_refused(servers, expected)


@pytest.mark.parametrize(
    ("settings", "value", "expected"),
    [
        (GaneshaSettings, {"nfs_version": 4.1}, {"nfs_version": "4.1"}),
        (GaneshaSettings, {"nfs_version": 3}, {"nfs_version": "3"}),
        (HTTP.settings_type, {"version": 1.1}, {"version": "1.1"}),
        (SMB.settings_type, {"max_dialect": 3.0}, {"max_dialect": "3.0"}),
    ],
)
def test_a_number_is_taken_for_the_choice_that_is_written_so(
    settings: type[Model], value: dict[str, Any], expected: dict[str, str]
) -> None:
    assert settings.model_validate(value) == settings.model_validate(expected)


def test_a_number_or_a_truth_value_that_is_written_like_no_choice_is_refused_with_the_choices() -> None:
    for value in ("4.5", "true"):
        found = refused(
            'name = "p"\ntitle = "t"\nsuite = "quick-files"\n[[servers]]\nserver = "ganesha"\n'
            f"settings.nfs_version = {value}\n"
        )
        assert any("nfs_version" in problem and "4.1" in problem for problem in found), found


def test_bounds_that_the_suite_would_leave_are_refused() -> None:
    bounds = "bounds = { max_clients = 100, max_rate_per_s = 10.0, max_length_s = 4 }\n"
    check_refused(
        '[[servers]]\nserver = "external"\nurl = "http://10.0.0.1/"\n' + bounds,
        "line 7: servers[0].bounds.max_clients: 100, but the suite has up to 120 clients",
        "line 7: servers[0].bounds.max_length_s: 4 s, but a level takes 5 s",
    )


def test_an_infinite_rate_is_no_bound() -> None:
    bounds = "bounds = { max_clients = 200, max_rate_per_s = inf, max_length_s = 9 }\n"
    check_refused(
        '[[servers]]\nserver = "external"\nurl = "http://10.0.0.1/"\n' + bounds,
        "line 7: servers[0].bounds.max_rate_per_s: must be a finite number",
    )


def test_cpus_shared_with_the_generator_are_refused_only_where_both_are_chosen() -> None:
    check_refused(
        '[generator]\ncpus = [0]\n[[servers]]\nserver = "nginx"\ncpus = [0]\n',
        "line 8: servers[0].cpus: generator.cpus also has 0",
    )
    assert read('[generator]\ncpus = [0]\n[[servers]]\nserver = "nginx"\n').servers[0].cpus == []


def test_a_cpu_that_this_machine_lacks_is_refused() -> None:
    data = {"name": "p", "title": "t", "suite": "quick-static", "servers": [{"server": "nginx", "cpus": [2]}]}
    _, problems = check_plan(data, SETTINGS_TYPES, machine_cpus={0, 1})
    assert [problem.path for problem in problems] == [("servers", 0, "cpus")]
    assert check_plan(data, SETTINGS_TYPES, machine_cpus={0, 1, 2})[1] == []


def test_a_scale_that_leaves_no_window_is_refused_with_the_least_that_would_do() -> None:
    (problem,) = refused(HEAD + 'scale = 0.2\n[[servers]]\nserver = "nginx"\n')
    assert problem.startswith("line 4: scale: leaves a window of 0.7 s")
    assert "use at least 0.2857" in problem
    assert read('scale = 0.3\n[[servers]]\nserver = "nginx"\n').scale == 0.3


def test_a_scale_given_as_an_option_replaces_the_plans_and_is_blamed_as_the_option() -> None:
    assert read('scale = 0.5\n[[servers]]\nserver = "nginx"\n', scale=0.8).scale == 0.8
    assert refused(HEAD + '[[servers]]\nserver = "nginx"\n', scale=0.01)[0].startswith("--scale: ")
    assert refused(HEAD + '[[servers]]\nserver = "nginx"\n', scale=3.0)[0].startswith("--scale: ")


def test_a_product_that_nobody_means_is_refused_before_it_is_expanded() -> None:
    levels = list(range(1, 101))
    factors = (
        f"factors = {{ workers = {levels}, worker_connections = {levels}, keep_alive_requests = {levels} }}"
    )
    check_refused(
        f'[[servers]]\nserver = "nginx"\n{factors}\n', "line 4: servers: the plan has 3,000,000 runs"
    )


def test_configurations_are_the_product_of_the_factors_in_the_documents_order() -> None:
    plan = read(
        '[[servers]]\nserver = "apache"\nsettings.workers = 64\n'
        '[servers.factors]\nmpm = ["prefork", "event"]\naccess_log = [true, false]\n'
        '[[servers]]\nserver = "nginx"\nname = "nginx-as-shipped"\n'
    )
    assert names(plan) == [
        "apache-mpm-prefork-access-log-on",
        "apache-mpm-prefork-access-log-off",
        "apache-mpm-event-access-log-on",
        "apache-mpm-event-access-log-off",
        "nginx-as-shipped",
    ]
    assert configurations(plan, SETTINGS_TYPES)[1].settings == {
        "workers": 64,
        "mpm": "prefork",
        "access_log": False,
    }


@pytest.mark.parametrize(
    ("url", "loopback"),
    [
        ("http://127.0.0.1:8080/", True),
        ("http://127.9.8.7/", True),
        ("http://[::1]/", True),
        ("http://localhost/", True),
        ("http://localhost.example.org/", False),
        ("http://127.0.0.1.example.org/", False),
        ("http://127.0.0.1@10.0.0.1/", False),
        ("http://0.0.0.0/", False),
        ("http://10.0.0.1/", False),
    ],
)
def test_only_loopback_itself_counts_as_loopback(url: str, loopback: bool) -> None:
    assert is_loopback(url) is loopback


@pytest.mark.parametrize(
    "url",
    [
        "ftp://a/",
        "https:///x",
        "http:///x",
        "http://a:99999/",
        "http://a:0/",
        "http://u@a/",
        "a",
        "http://[/",
    ],
)
def test_a_url_that_is_no_target_is_refused(url: str) -> None:
    assert url_problem(url) is not None


def suite(**changes: Any) -> Suite:
    fields: dict[str, Any] = {
        "name": "s",
        "title": "t",
        "source": "none",
        "workload": "webbench-static",
        "clients": [1, 8],
        "length_s": 300,
        "ramp_up_s": 30,
        "ramp_down_s": 20,
        "delay_s": 5,
        "think_time_s": 2,
    }
    return Suite.model_validate({**fields, **changes})


def test_scale_shortens_times_in_proportion_and_leaves_the_load_alone() -> None:
    level = levels(suite(), 0.02)[1]
    assert (level.length_s, level.ramp_up_s, level.ramp_down_s, level.delay_s) == (6.0, 0.6, 0.4, 0.1)
    assert (level.index, level.name, level.clients, level.threads, level.think_time_s) == (
        2,
        "8_client",
        8,
        1,
        2,
    )
    assert level.window_s == pytest.approx(5.0)


@pytest.mark.parametrize(("scale", "delay_s"), [(1.0, 20.0), (0.02, 6.0)])
def test_thinking_clients_start_over_their_think_time_and_within_the_level(
    scale: float, delay_s: float
) -> None:
    assert levels(suite(delay_s=0, think_time_s=20), scale)[0].delay_s == delay_s


@given(st.floats(min_value=0.01, max_value=1))
def test_the_window_stays_the_same_share_of_the_level_at_any_scale(scale: float) -> None:
    full, short = levels(suite())[0], levels(suite(), scale)[0]
    assert short.window_s / short.length_s == pytest.approx(full.window_s / full.length_s, rel=1e-4)


def test_a_shortened_suite_says_by_how_much_and_a_full_one_says_nothing() -> None:
    assert suite_shortened(0.02) == "shortened to 2 % of its full length"
    assert suite_shortened(0.005) == "shortened to 0.5 % of its full length"
    assert suite_shortened(1) is None


TOML_WITH_EVERY_FORM = '''\
# a comment with [brackets] and = signs
a.b = 1

[table]
text = """
[not.a.table]
x = 1"""
list = [
  1, # two ]
  { inner = "]" },
]
[[many]]
"quoted key" = 'x'
[[many]]
[many.below]
y = 1
[[many.deep]]
z = 1
[[many.deep]]
z = 2
'''


def test_every_key_is_found_on_the_line_where_its_statement_begins() -> None:
    assert key_lines(TOML_WITH_EVERY_FORM) == {
        ("a",): 2,
        ("a", "b"): 2,
        ("table",): 4,
        ("table", "text"): 5,
        ("table", "list"): 8,
        ("table", "list", 0): 8,
        ("table", "list", 1): 8,
        ("table", "list", 1, "inner"): 8,
        ("many",): 12,
        ("many", 0): 12,
        ("many", 0, "quoted key"): 13,
        ("many", 1): 14,
        ("many", 1, "below"): 15,
        ("many", 1, "below", "y"): 16,
        ("many", 1, "deep"): 17,
        ("many", 1, "deep", 0): 17,
        ("many", 1, "deep", 0, "z"): 18,
        ("many", 1, "deep", 1): 19,
        ("many", 1, "deep", 1, "z"): 20,
    }


@given(st.text(alphabet="ab=[]{}\"'#.,1 \n\\", max_size=60))
def test_no_valid_toml_makes_the_locator_stumble(text: str) -> None:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    lines = key_lines(text)
    assert {path[0] for path in lines} == set(document)


def test_a_title_that_is_left_out_is_the_name() -> None:
    plan = parse_plan('name = "p"\nsuite = "quick-web"\n[[servers]]\nserver = "nginx"\n', "p", SETTINGS_TYPES)
    assert plan.title == "p"


def test_a_name_is_refused_in_words_and_not_by_a_regular_expression() -> None:
    (problem,) = refused('name = "No_Name"\nsuite = "quick-web"\n[[servers]]\nserver = "nginx"\n')
    assert problem == (
        "line 1: name: must be 1 to 63 lower-case letters, digits, dots and hyphens, beginning with a letter or a "
        "digit, not 'No_Name'"
    )


def test_more_workers_than_cpus_are_remarked_on() -> None:
    servers = '[[servers]]\nserver = "nginx"\ncpus = [0]\n[servers.factors]\nworkers = [1, 2]\n'
    planned = configurations(read(servers), SETTINGS_TYPES)
    (remark,) = remarks(planned)
    assert remark.startswith("nginx-workers-2: 2 workers share 1 CPU (0)")
    threads = read('[[servers]]\nserver = "apache"\ncpus = [0]\nsettings = { workers = 256 }\n')
    assert list(remarks(configurations(threads, SETTINGS_TYPES))) == []


def test_every_shipped_plan_and_suite_fits_its_schema() -> None:
    docs = SHIPPED[0].parent.parent / "docs"
    schemas = [json.loads((docs / f"{kind}.schema.json").read_text()) for kind in ("plan", "suite")]
    shipped = sorted((docs.parent / "python" / "serverdyno" / "plan" / "suites").glob("*.toml"))
    own = sorted((SHIPPED[0].parent / "suites").glob("*.toml"))
    # `jsonschema.validate` would check the schema itself each time.
    checks = []
    for schema in schemas:
        kind = jsonschema.validators.validator_for(schema)
        kind.check_schema(schema)
        checks.append(kind(schema))
    for check, paths in zip(checks, (SHIPPED, [*shipped, *own]), strict=True):
        assert paths
        for path in paths:
            check.validate(tomllib.loads(path.read_text()))
    with pytest.raises(jsonschema.ValidationError):
        checks[0].validate({"name": "p", "suite": "quick-web", "server": []})


def test_a_plan_of_more_load_levels_than_a_report_can_show_is_refused() -> None:
    factors = "[servers.factors]\naccess_log = [true, false]\ntcp_nodelay = [true, false]\n"
    text = f'name = "p"\nsuite = "quick-web"\nrepetitions = 1000\n[[servers]]\nserver = "nginx"\n{factors}'
    with pytest.raises(PlanError, match="4,000 runs of 4 load levels are 16,000 in all; the limit is 10,000"):
        parse_plan(text, "p", SETTINGS_TYPES)


@pytest.mark.parametrize(
    ("written", "url"),
    [
        (r"\\nas\data\a b", "smb://nas/data/a b"),
        ("//nas/data", "smb://nas/data"),
        ("cifs://nas/data", "smb://nas/data"),
        ("nas:/export/a", "nfs://nas/export/a"),
        ("[::1]:/export", "nfs://[::1]/export"),
        ("http://nas/data", None),
        ("/mnt/disk", None),
        ("C:/data", None),
    ],
)
def test_shares_and_exports_as_others_write_them_are_told_as_urls(written: str, url: str | None) -> None:
    assert other_spelling(written) == url
    if url is not None:
        assert f"write it {url}" in (url_problem(written, ["smb", "nfs"]) or "")


def test_a_url_of_another_kind_of_server_is_sent_to_its_command() -> None:
    assert "dyno scenario NAME -d smb://nas/data" in (url_problem("smb://nas/data", ["http"]) or "")
    assert "dyno load http://nas/" in (url_problem("http://nas/", ["smb", "nfs", "file"]) or "")


@pytest.mark.parametrize(
    "url", ["smb://nas/with space", "smb://nas/Ž/ť", "nfs://nas/my export", "file:///a b/ž"]
)
def test_names_of_shares_may_be_written_as_they_are(url: str) -> None:
    assert url_problem(url) is None
    assert url_problem(f"{url}\n") is not None
