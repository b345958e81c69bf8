"""Scenarios: a user's steps over a directory, NFS and SMB, their effect for others, and that nothing is left."""

from __future__ import annotations

import hashlib
import json
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from benches.levels import directory_target

from serverdyno import _native, wording
from serverdyno.counted import Counted
from serverdyno.errors import PlanError, ServerError
from serverdyno.fleet.load_setup import LoadSetup
from serverdyno.plan import suites
from serverdyno.plan.expand import levels
from serverdyno.plan.model import GeneratorPlan, Level, Plan, ServerPlan, Suite
from serverdyno.plan.protocols import scenario as model
from serverdyno.plan.protocols.files import FILES as WORK
from serverdyno.plan.protocols.scenario import SCENARIO, Scenario
from serverdyno.probes.abandoned import sweep
from serverdyno.run import steps
from serverdyno.run.create import create_experiment
from serverdyno.store.experiment import Experiment
from support.disk_mix import target as smb_target
from support.dyno_process import Home
from support.experiments import Listener, carried_out
from support.file_server import PATIENCE_S, needs_root, samba, smbclient
from support.nfs_server import ganesha, libnfs
from support.nfs_server import target as nfs_target
from support.reference_servers import start_nfs
from support.suites_of_steps import steps_suite

MIB = 1 << 20
KEEP = "not of the scenario"
# One step of every kind.
EVERYTHING = """
[trees.t]
directories = 2
levels = 1
files = [{ name = "a", count = 3, bytes = 5000 }, { name = "b", count = 2 }]

[local.big]
bytes = 3_000_001

[[steps]]
do = "make-tree"
tree = "t"
times = true
[[steps]]
do = "list"
tree = "t"
pattern = "a*"
[[steps]]
do = "list"
tree = "t"
long = true
[[steps]]
do = "find"
tree = "t"
[[steps]]
do = "stat"
tree = "t"
[[steps]]
do = "read"
tree = "t"
[[steps]]
do = "build"
tree = "t"
searches = 2
object_bytes = 100
warm = true
[[steps]]
do = "list"
tree = "t"
[[steps]]
do = "copy-to"
local = "big"
file = "big"
warm = true
[[steps]]
do = "copy-from"
file = "big"
[[steps]]
do = "make-file"
file = "zeros"
bytes = 2_000_001
[[steps]]
do = "remove-file"
file = "zeros"
[[steps]]
do = "remove-tree"
tree = "t"
"""
STEPS = [
    "make t",
    "ls a*",
    "ls -l",
    "find t",
    "stat t",
    "read t",
    "build t",
    "ls",
    "cp to big",
    "cp from big",
]
STEPS += ["mkfile 2,000,001 bytes", "rm zeros", "rm -r t"]
DIRECTORIES, FILES, FILES_OF_A = 3, 15, 9


def posix(directory: Path) -> _native.Target:
    return directory_target(directory.as_uri())


@dataclass
class StepResult:
    """A step, and the counts of its passes or phases."""

    name: str
    passes: list[dict[str, Any]]


def as_pass(state: str, told: Counted) -> dict[str, Any]:
    times = _native.Histogram.from_bytes(told.response_time_hdr)
    return {
        "phase": None if state in ("", "cold", "warm") else state,
        "elapsed_s": told.window_s,
        "user_s": told.generator_cpu_user_s,
        "system_s": told.generator_cpu_system_s,
        "entries": told.entries,
        "bytes": told.bytes_read + told.bytes_written,
        "p50_us": times.value_at(0.5) / 1000,
        "p99_us": times.value_at(0.99) / 1000,
        "requests": {row.request: row.count for row in told.requests},
    }


def results(
    scenario: Scenario,
    to: _native.Target,
    then: Callable[[str], None] = lambda _: None,
    block_bytes: int = MIB,
) -> dict[str, StepResult]:
    """Carry out a scenario and return its steps by name; `then` gets the name of each step but the last."""
    suite = suites.parse(steps_suite("steps", EVERYTHING), "steps")
    suite = suite.with_settings(WORK, suite.settings(WORK).model_copy(update={"scenario": scenario}))
    setup = LoadSetup(suite, to, GeneratorPlan(), (), None)
    planned = levels(suite)
    of_level = [step for step in scenario.steps for _ in model.states(step)]
    ended: list[str] = []
    left: list[str] = []

    def at_gate(kind: str, level: Level) -> steps.ServerUse:
        place = planned.index(level)
        if kind == "between" and place > 0 and (name := model.label(of_level[place - 1])) not in ended:
            ended.append(name)
            then(name)
        return steps.NOT_KNOWN

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "block_bytes", lambda _url: block_bytes)
        done = steps.carry_out(planned, setup, 0, steps.Listener(at_gate, left.extend))
    assert left == []
    found: dict[str, StepResult] = {}
    for step, level, one in zip(of_level, planned, done, strict=True):
        name = model.label(step)
        found.setdefault(name, StepResult(name, [])).passes.append(as_pass(level.state, one.result))
    return found


def parsed(steps: str) -> Scenario:
    scenario = suites.parse(steps_suite("steps", steps), "steps").settings(WORK).scenario
    assert scenario is not None
    return scenario


def everything() -> Scenario:
    return parsed(EVERYTHING)


def check_counts(found: dict[str, StepResult]) -> None:
    """Check the counts that do not depend on the protocol."""
    assert list(found) == STEPS
    entries = {name: [one["entries"] for one in each.passes] for name, each in found.items()}
    assert entries["make t"] == [DIRECTORIES + FILES]
    assert entries["ls a*"] == [3, 3] and entries["ls -l"] == [7, 7]
    assert entries["find t"] == [FILES + 2] * 2  # all but the topmost directory
    assert entries["ls"] == [12, 12]  # an object next to each of five files
    moved = {name: [one["bytes"] for one in each.passes] for name, each in found.items()}
    assert moved["make t"] == [FILES_OF_A * 5000] and moved["read t"] == [FILES_OF_A * 5000] * 2
    assert moved["build t"] == [FILES_OF_A * 5000 + FILES * 100] * 2
    assert moved["cp to big"] == moved["cp from big"] == [3_000_001] * 2
    assert moved["mkfile 2,000,001 bytes"] == [2_000_001]
    for each in found.values():
        for one in each.passes:
            assert one["elapsed_s"] > 0 and one["user_s"] >= 0 and one["system_s"] >= 0
        assert each.passes[0]["requests"]  # a cache may answer everything in a warm pass


def test_over_a_directory_each_step_is_its_system_calls_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text(KEEP)
    found = results(everything(), posix(tmp_path), block_bytes=4096)
    check_counts(found)
    requests = {name: each.passes[0]["requests"] for name, each in found.items()}
    assert requests["ls a*"]["stat"] == 3 and requests["ls -l"]["stat"] == 7 and "stat" not in requests["ls"]
    assert requests["stat t"]["stat"] == FILES
    assert requests["mkfile 2,000,001 bytes"]["write"] == 1 + -(-2_000_001 // 4096)
    assert requests["rm -r t"]["unlink"] == DIRECTORIES + 2 * FILES
    assert [path.name for path in tmp_path.iterdir()] == ["theirs"]
    assert (tmp_path / "theirs").read_text() == KEEP


def test_a_copy_or_a_file_that_was_changed_on_the_server_is_a_failure_and_is_removed(tmp_path: Path) -> None:
    def spoil(step: str, file: str) -> Callable[[str], None]:
        def then(name: str) -> None:
            if name == step:
                [path] = tmp_path.glob(f"serverdyno-scenario-*/{file}")
                content = bytearray(path.read_bytes())
                content[-1] ^= 1
                path.write_bytes(content)

        return then

    with pytest.raises(ServerError, match="cp from big: the received content differs"):
        results(everything(), posix(tmp_path), spoil("cp to big", "big"))
    with pytest.raises(ServerError, match="read t: the received content differs from the file's content"):
        results(everything(), posix(tmp_path), spoil("stat t", "t/d2/a3"))
    assert list(tmp_path.iterdir()) == []


def test_a_file_too_many_or_too_few_is_seen_by_a_listing(tmp_path: Path) -> None:
    def add(name: str) -> None:
        [base] = tmp_path.glob("serverdyno-scenario-*")
        if name == "make t":
            (base / "t" / "a99").touch()
        if name == "ls a*":
            pytest.fail("a listing with a file too many is no success")

    with pytest.raises(ServerError, match=r"length differs|received"):
        results(everything(), posix(tmp_path), add)


OF_CLIENTS = """
[[steps]]
do = "metadata"
clients = 3
files = 40
bytes = 3901
[[steps]]
do = "metadata"
clients = 3
files = 40
shared = true
[[steps]]
do = "streams"
writers = 2
readers = 2
bytes = 1_100_000
block_bytes = 65536
depth = 8
random = true
"""


def check_clients(found: dict[str, StepResult]) -> None:
    """Check that each phase has the files of all clients, and each stream its whole blocks."""
    own, shared, streams = found.values()
    for step, size in ((own, 3901), (shared, 0)):
        assert [one["phase"] for one in step.passes] == ["create", "stat", "read", "remove"]
        assert [one["entries"] for one in step.passes] == [120] * 4
        assert [one["bytes"] for one in step.passes] == [120 * size, 0, 120 * size, 0]
    assert [(one["phase"], one["entries"]) for one in streams.passes] == [("write", 2), ("read", 2)]
    blocks = 1_100_000 // 65536
    for one in streams.passes:
        assert one["bytes"] == 2 * blocks * 65536
        assert one["p50_us"] is not None and one["p99_us"] is not None and 0 < one["p50_us"] <= one["p99_us"]


@pytest.mark.parametrize("direct", [False, True])
def test_several_clients_on_a_directory_make_the_calls_of_their_phases(tmp_path: Path, direct: bool) -> None:
    to = directory_target(tmp_path.as_uri(), direct=direct)
    found = results(parsed(OF_CLIENTS), to)
    check_clients(found)
    own, shared, streams = found.values()
    for step in (own, shared):
        create, stat, read, remove = (one["requests"] for one in step.passes)
        assert create["close"] == 120 and stat["stat"] == 120 and remove["unlink"] == 120
        assert read["close"] == 120 and "write" not in read
    write, read = (one["requests"] for one in streams.passes)
    assert write["write"] == read["read"] == 2 * (1_100_000 // 65536) and write["fsync"] == 2
    assert list(tmp_path.iterdir()) == []


def test_a_client_that_fails_ends_the_others_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    scenario = parsed(OF_CLIENTS)
    made: list[Path] = []

    def then(_name: str) -> None:
        if not made:  # the directory of the next step must exist by then
            [base] = tmp_path.glob("serverdyno-scenario-*")
            made.append(base / "files")
            made[0].mkdir()

    with pytest.raises(ServerError, match="shared: a file exists that must not exist"):
        results(scenario, posix(tmp_path), then)
    assert [path.name for path in tmp_path.iterdir()] == ["theirs"]


def shipped() -> list[Suite]:
    return [suite for suite in map(suites.load, suites.names()) if suite.workload == SCENARIO]


def test_the_shipped_scenarios_run_at_a_small_scale(home: Home, tmp_path: Path) -> None:
    names = home.dyno("scenario").stdout
    for suite in shipped():
        name = suite.name
        assert name in names
        done = home.dyno("scenario", name, "-d", tmp_path, "--scale", "0.002", "--json")
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        assert document["scale"] == 0.002
        scenario = suite.settings(WORK).scenario
        assert scenario is not None and len(document["steps"]) == len(scenario.steps)
        for step, told in zip(scenario.steps, document["steps"], strict=True):
            rate = {model.Streams: "mb_s", model.Metadata: "files_s"}.get(type(step))
            assert rate is None or all(one[rate] > 0 for one in told["passes"]), told
    assert list(tmp_path.iterdir()) == []


def test_the_scenario_of_2002_has_the_published_files() -> None:
    scenario = suites.load("etesting-2002").settings(WORK).scenario
    assert scenario is not None
    assert [(each.name, each.count) for each in scenario.trees["names"].files] == [
        ("aaa", 100),
        ("bb", 59900),
    ]
    assert scenario.local["bigfile"].bytes == 480 * MIB
    assert [step.bytes for step in scenario.steps if isinstance(step, model.MakeFile)] == [10240 * MIB]
    labels = [model.label(step) for step in scenario.steps]
    assert labels[1:7] == [
        "ls aaa*",
        "ls -l aaa*",
        "ls -l",
        "cp /tmp/bigfile .",
        "cp bigfile /tmp",
        "mkfile 10240m",
    ]


def test_what_the_report_of_2002_says_stands_below_each_step(home: Home, tmp_path: Path) -> None:
    done = home.dyno("scenario", "etesting-2002", "-d", tmp_path, "--scale", "0.0001")
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["2002:", "SFU", "3.0", "2.069", "0.030", "0.890"] in lines  # figure 8
    assert ["2002:", "SFU", "3.0", "986.415", "7.090", "94.660"] in lines  # figure 13
    assert ["2002:", "SFU", "2.0", *[wording.NOTHING] * 3] in lines  # it could not make such a large file
    share = "10 of the suite's 60,003 files and directories, 1.1 of its 11,240.7 MB"
    assert f"Scale 0.0001: {share}" in done.stderr
    assert "not results of the original" in done.stderr.lower()


@pytest.mark.parametrize("verb", [("bonnie", "-s", "1", "--seeks", "20"), ("scenario", "streams")])
def test_what_a_one_liner_wrote_can_be_run_again_as_its_report_says(
    home: Home, tmp_path: Path, verb: tuple[str, ...]
) -> None:
    there, folder = tmp_path / "there", tmp_path / "e"
    there.mkdir()
    scale = ("--scale", "0.001") if verb[0] == "scenario" else ()
    done = home.here(*verb, *scale, "-d", there, "--into", folder)
    assert done.returncode == 0, done.stderr
    assert home.here("report", folder, "--json").returncode == 0
    told = json.loads((folder / "report" / "report.json").read_text())["reproduce"]
    for document in told["documents"]:
        (tmp_path / document["title"]).write_text(document["text"])
    command = next(fact["text"] for fact in told["facts"] if fact["label"] == "Command")
    words = command.replace("plan.toml", f"{tmp_path}/plan.toml").replace(
        "suite.toml", f"{tmp_path}/suite.toml"
    )
    again = home.here(*words.split()[1:], "--into", tmp_path / "again")
    assert again.returncode == 0, again.stderr
    with Experiment.open(folder) as one, Experiment.open(tmp_path / "again") as other:
        assert one.head.suites == other.head.suites
        assert [level.name for level in one.levels()] == [level.name for level in other.levels()]


def test_all_that_is_wrong_with_a_scenario_is_told_at_once_with_its_lines() -> None:
    text = """
[trees.a]
levels = 2
[[steps]]
do = "list"
tree = "a"
[[steps]]
do = "copy-to"
local = "no"
file = "a"
[[steps]]
do = "remove-file"
file = "q"
warm = true
"""
    with pytest.raises(PlanError) as caught:
        parsed(text)
    told = "\n".join(caught.value.problems)
    for part in (
        ": files.scenario.trees.a.directories",
        ": files.scenario.steps[0].tree: no earlier step has created",
        ": files.scenario.steps[1].local",
        "'a' is the name of a tree",
        ": files.scenario.steps[2].file",
        ": files.scenario.steps[2].warm",
    ):
        assert part in told, told


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ('do = "mktree"\ntree = "t"', 'do: no action "mktree"; did you mean make-tree?'),
        ('tree = "t"', "do is missing"),
        ('do = "make-file"\nfile = "a/b"\nbytes = 1', "must be 1 to 100 of the characters"),
        ('do = "make-file"\nfile = "a"\nbytes = "1M"', "must be a whole number, not '1M'"),
    ],
)
def test_one_wrong_step_is_one_problem(step: str, expected: str) -> None:
    with pytest.raises(PlanError) as caught:
        parsed(f"[[steps]]\n{step}\n")
    [problem] = caught.value.problems
    assert "steps[0]" in problem and expected in problem and "Tuple" not in problem, problem


@pytest.mark.parametrize("name", [".hidden", "..", "-rf", "Größe", "a b", ""])
def test_a_name_that_can_not_be_is_told_with_the_letters_that_it_may_have(name: str) -> None:
    text = f'[trees.t]\nfiles = [{{ name = "{name}", count = 1, bytes = 1 }}]\n[[steps]]\ndo = "list"\ntree = "t"\n'
    with pytest.raises(PlanError) as caught:
        parsed(text)
    allowed = "must be 1 to 100 of the characters A-Z, a-z, 0-9, _, . and - (the first not . or -)"
    assert any(allowed in problem for problem in caught.value.problems), caught.value.problems


@pytest.mark.parametrize(
    "arguments",
    [
        ["etesting-2002", "-d", "smb://192.0.2.1/a"],
        ["etesting-2002", "-d", "/nowhere/at/all"],
        ["etesting-2002", "--scale", "0"],
        ["etesting-2002", "--scale", "nan"],
        ["etesting-2002", "--no-readdirplus"],
        ["etesting-2003"],
        ["/nowhere.toml"],
    ],
)
def test_what_can_not_be_is_refused_in_words(home: Home, arguments: list[str]) -> None:
    done = home.dyno("scenario", *arguments)
    assert done.returncode != 0 and "\nerror:" in f"\n{done.stderr}", done.stderr


def test_a_name_that_is_no_scenario_is_told_with_the_scenarios_alone(home: Home) -> None:
    said = " ".join(home.here("scenario", "nosuch").stderr.split())
    assert 'no scenario "nosuch"' in said and "etesting-2002" in said and "netbench" not in said, said
    assert "Use dyno bonnie." in home.here("scenario", "bonnie").stderr


def test_local_files_of_a_scenario_that_was_killed_are_removed_when_the_next_one_starts(
    home: Home, tmp_path: Path
) -> None:
    with home.started("scenario", "etesting-2002", "-d", tmp_path) as tool:
        deadline = time.monotonic() + PATIENCE_S
        while not (
            left := [at for at in home.temporary.glob("serverdyno-scenario-*/.owner") if at.read_text()]
        ):
            assert time.monotonic() < deadline and tool.poll() is None
            time.sleep(0.01)
        tool.kill()
        tool.wait()
    assert sweep(home.temporary, age_s=-1) == [left[0].parent]


def test_an_interrupt_removes_everything(home: Home, tmp_path: Path) -> None:
    with home.started("scenario", "etesting-2002", "-d", tmp_path) as tool:
        deadline = time.monotonic() + PATIENCE_S
        while not list(tmp_path.glob("*/names/aaa1")):
            assert time.monotonic() < deadline and tool.poll() is None
            time.sleep(0.01)
        tool.send_signal(signal.SIGINT)
        assert tool.wait(PATIENCE_S) != 0
    assert list(tmp_path.iterdir()) == []


@needs_root
def test_over_nfs_each_step_is_the_requests_of_a_client_of_its_time_and_libnfs_sees_it() -> None:
    names, matches = 100, 40
    text = EVERYTHING.replace('{ name = "b", count = 2 }', "").replace("directories = 2\nlevels = 1", "")
    text = text.replace('name = "a", count = 3, bytes = 5000', f'name = "aaa", count = {matches}')
    text = text.replace("}, ]", f'}}, {{ name = "bbbbb", count = {names - matches} }}]')
    scenario = parsed(text.replace('pattern = "a*"', 'pattern = "aaa*"'))
    with ganesha() as server:
        [volume] = server.data_directories()
        export = server.access().shares[0]

        def look(name: str) -> None:
            if name == "cp to big":
                [base] = (path.name for path in volume.glob("serverdyno-scenario-*"))
                there = libnfs(server, "nfs-cat", f"{export}/{base}/big")
                on_disk = (volume / base / "big").read_bytes()
                assert len(there) == 3_000_001
                assert hashlib.sha256(there).digest() == hashlib.sha256(on_disk).digest()
                assert len(libnfs(server, "nfs-ls", f"{export}/{base}/t").splitlines()) == 2 * names

        plus = results(scenario, nfs_target(server), look)
        lists = [
            step
            for step in scenario.steps
            if isinstance(step, model.MakeTree | model.List | model.RemoveTree)
        ]
        of_era = scenario.model_copy(update={"steps": tuple(lists)})
        era = results(of_era, nfs_target(server, readdirplus=False))
        check_clients(results(parsed(OF_CLIENTS), nfs_target(server)))
        assert list(volume.glob("serverdyno-scenario-*")) == []
    of = {name: each.passes[0]["requests"] for name, each in plus.items()}
    old = {name: each.passes[0]["requests"] for name, each in era.items()}
    # A client without READDIRPLUS sends LOOKUP for each name that a pattern finds, and for each name of `ls -l`.
    lookups = {"ls aaa*": matches, "ls -l": names, "ls": 0}
    for name, count in lookups.items():
        walk = 2  # the two directories above, once in a fresh session
        assert old[name].get("LOOKUP", 0) == walk + count, old[name]
        assert of[name].get("LOOKUP", 0) == walk, of[name]
        assert old[name]["READDIR"] >= 1 and "READDIRPLUS" not in old[name]
        assert of[name]["READDIRPLUS"] >= old[name]["READDIR"] and "READDIR" not in of[name]
    size, transfer = 3_000_001, MIB
    copied = of["cp to big"]
    # The cache writes in runs that may be shorter than the server's largest request.
    assert copied["CREATE"] == 1 and copied["WRITE"] >= -(-size // transfer) and copied["COMMIT"] >= 1
    assert of["cp from big"]["READ"] >= -(-size // transfer)
    made = of["mkfile 2,000,001 bytes"]
    assert made["WRITE"] >= -(-2_000_001 // transfer) and made["CREATE"] == 1 and made["COMMIT"] >= 1
    assert of["rm -r t"]["REMOVE"] == 2 * names and of["rm -r t"]["RMDIR"] == 1


@needs_root
def test_over_smb_each_step_has_its_requests_and_smbclient_sees_what_it_left(tmp_path: Path) -> None:
    with samba() as server:
        volume = server.data_directories()[0]
        before = sorted(path.name for path in volume.iterdir())

        def look(name: str) -> None:
            if name == "cp to big":
                [base] = (path.name for path in volume.glob("serverdyno-scenario-*"))
                smbclient(server, f"cd {base}; lcd {tmp_path}; get big; cd t; get a1")
                assert (tmp_path / "big").read_bytes() == (volume / base / "big").read_bytes()
                assert (tmp_path / "a1").stat().st_size == 5000

        found = results(everything(), smb_target(server), look)
        check_clients(results(parsed(OF_CLIENTS), smb_target(server)))
        assert sorted(path.name for path in volume.iterdir()) == before
    check_counts(found)
    requests = {name: each.passes[0]["requests"] for name, each in found.items()}
    assert requests["ls -l"]["QUERY_DIRECTORY"] >= 1 and requests["ls -l"]["CREATE"] == 1
    assert requests["stat t"]["CREATE"] == FILES
    assert requests["cp to big"]["WRITE"] >= 3 and requests["cp from big"]["READ"] >= 3


def test_a_phase_after_a_new_session_may_last(tmp_path: Path) -> None:
    # The phase is longer than the two seconds that the end of a session may take.
    step = '[[steps]]\ndo = "metadata"\nclients = 1\nfiles = 20\nbytes = 1000\n'
    server = start_nfs(fault="delay=60ms")
    try:
        url = f"nfs://127.0.0.1:{server.port}/volume1?mountport={server.port}"
        to = ServerPlan(server="external", url=url)
        plan = Plan(name="p", suites=["s"], repetitions=1, servers=[to])
        suite = suites.parse(steps_suite("s", step), "a test")
        with create_experiment(tmp_path / "e", "# made by a test\n", plan, [suite]):
            pass
        listener = Listener()
        assert carried_out(tmp_path / "e", listener), listener.failures
    finally:
        server.stop()
    with Experiment.open(tmp_path / "e") as experiment:
        assert max(level.window_s for level in experiment.levels()[1:]) > 2
