"""The experiment folder: records are read as written, whatever is killed, and damage never becomes a figure."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import serverdyno
from serverdyno.errors import DynoError, UserError
from serverdyno.plan.model import RunKey
from serverdyno.store import table
from serverdyno.store.experiment import Experiment
from serverdyno.store.head import FORMAT_VERSION
from serverdyno.store.note import RunNote
from serverdyno.store.records import (
    ClientRow,
    ErrorRow,
)
from support.places import TESTS
from support.records import PLAN_TEXT, make_head, make_record

NOTE = RunNote.model_validate({"state": "done", "requests_answered": 12, "of_a_later_version": None})


@pytest.fixture
def experiment(tmp_path: Path) -> Iterator[Experiment]:
    with Experiment.create(tmp_path / "e", PLAN_TEXT, make_head()) as made:
        yield made


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_an_experiment_reads_back_as_it_was_made(experiment: Experiment) -> None:
    with Experiment.open(experiment.folder) as found:
        assert found.head == make_head()
        assert found.plan_text == PLAN_TEXT
        assert (found.levels(), found.finished(), found.run_notes()) == ([], set(), {})
        assert found.disclosure() == {"servers": {}}


def test_levels_come_back_exactly_and_sorted_by_run_and_level(experiment: Experiment) -> None:
    written = [make_record(run, level) for run in experiment.head.order for level in (1, 2, 3)]
    for record in reversed(written):
        experiment.write_level(record)
    with Experiment.open(experiment.folder) as found:
        assert found.levels() == written
        assert found.finished() == {(run, level) for run in (1, 2, 3, 4) for level in (1, 2, 3)}
    assert "runs/002-b-r1/level-03.parquet" in files_below(experiment.folder)


COUNT = st.integers(min_value=0, max_value=2**63 - 1)
SECONDS = st.floats(allow_nan=False)


@given(
    count=COUNT,
    cpu_s=st.none() | SECONDS,
    rss=st.none() | COUNT,
    histogram=st.binary(),
    clients=st.lists(st.builds(ClientRow, COUNT, COUNT, COUNT, COUNT, COUNT, COUNT, st.none() | SECONDS)),
    errors=st.lists(st.builds(ErrorRow, st.text(), st.text(), COUNT, COUNT, st.text())),
)
def test_any_record_survives_the_file(  # noqa: PLR0917
    count: int,
    cpu_s: float | None,
    rss: int | None,
    histogram: bytes,
    clients: list[ClientRow],
    errors: list[ErrorRow],
) -> None:
    record = make_record(
        RunKey(1, "a", 1),
        1,
        operations=count,
        server_cpu_s=cpu_s,
        server_rss_bytes=rss,
        response_time_hdr=histogram,
        by_client=clients,
        by_operation=[],
        errors=errors,
    )
    other = make_record(RunKey(1, "a", 1), 2)
    read = table.records([table.decode(table.encode(each)) for each in (record, other)])
    assert read == [record, other]


def test_what_was_not_measured_never_becomes_zero(experiment: Experiment) -> None:
    runs = experiment.head.order
    experiment.write_level(make_record(runs[0], 1, server_cpu_s=None, server_rss_bytes=None))
    experiment.write_level(make_record(runs[0], 2, server_cpu_s=0.0, server_rss_bytes=0))
    assert [(level.server_cpu_s, level.server_rss_bytes) for level in experiment.levels()] == [
        (None, None),
        (0.0, 0),
    ]


def nested_columns() -> dict[str, list[str]]:
    """Return the columns of each table in a level's row."""
    return {
        field.name: [inner.name for inner in field.type.value_type]
        for field in table.SCHEMA
        if pa.types.is_list(field.type)
    }


def test_the_columns_of_format_10_are_these() -> None:
    # Changing a record class changes the format: raise its version.
    nested = nested_columns()
    plain = {
        field.name: (str(field.type), field.nullable) for field in table.SCHEMA if field.name not in nested
    }
    by_type: dict[tuple[str, bool], set[str]] = {}
    for name, kind in plain.items():
        by_type.setdefault(kind, set()).add(name)
    assert by_type == {
        ("string", False): {"configuration", "name"},
        ("string", True): {"suite", "step", "state"},
        ("bool", False): {"stopped", "syncs_known"},
        ("binary", False): {"response_time_hdr", "connect_time_hdr", "loop_lag_hdr"},
        ("binary", True): {"handshake_time_hdr", "scheduling_error_hdr", "break_time_hdr"},
        ("int64", True): {
            "server_rss_bytes",
            "under_way_at_close",
            "overdue_at_end",
            "rate_per_s",
            *("arrivals", "arrivals_in_window", "dropped", "dropped_in_window", "waited"),
            *("breaks", "breaks_to_answer", "breaks_answered"),
            *OF_FAILOVER.split(),
            "passes",
            "pass_operations",
            *("bytes_checked", "bytes_unknown", "entries", "figure"),
        },
        ("double", True): {
            *("server_cpu_s", "others_cpu_s", "steal_cpu_s", "outstanding_s"),
            "ready_work_s",
            "run_delay_s",
            "stalled_s",
            "io_wait_s",
            "generator_busiest_cpu_s",
            "under_way_longest_s",
            "waiting_s",
            "cut_at_s",
        },
        ("double", False): {
            *("length_s", "ramp_up_s", "ramp_down_s", "window_s", "started_unix_s"),
            *("generator_cpu_user_s", "generator_cpu_system_s"),
        },
        ("int64", False): {
            "run",
            "repetition",
            "level",
            "clients",
            "threads",
            "clients_participating",
            "operations",
            "operations_total",
            "bytes_read",
            "bytes_written",
            "bytes_in",
            "bytes_out",
            "generator_threads",
            "connections",
            "reconnects",
            "source_addresses",
        },
    }


OF_FAILOVER = (
    "handles_asked handles_granted handles_persistent handles_regained handles_lost calls_sent_again "
    "blocks_read_back blocks_lost blocks_wrong unflushed_lost"
)
OF_NODES = (
    "node clients operations operations_total bytes_in bytes_out errors generator_threads "
    "generator_cpu_s generator_busiest_cpu_s ready_work_s outstanding_s run_delay_s others_cpu_s "
    "steal_cpu_s cpus clock_offset_s clock_error_s start_late_s"
)


def test_the_rows_in_a_level_of_format_9_have_these_columns() -> None:
    assert nested_columns() == {
        "by_operation": ["operation", "count", "bytes_read", "bytes_written", "errors", "response_time_hdr"],
        "by_client": [
            "client",
            "operations",
            "bytes_in",
            "bytes_read",
            "bytes_written",
            "errors",
            "left_at_s",
        ],
        "by_second": ["second", "operations", "bytes_in", "errors"],
        "errors": ["side", "fault", "count", "in_window", "example"],
        "calls": ["call", "done", "not_there", "failed", "bytes"],
        "requests": ["request", "count"],
        "syncs": ["system_call", "count"],
        "nodes": OF_NODES.split(),
        "handshakes": ["version", "cipher", "key_exchange", "key", "resumed", "count", "in_window"],
        "outages": ["client", "last_s", "back_s", "session_lost"],
    }


def test_a_finished_level_is_never_replaced_and_a_stopped_one_may_be(experiment: Experiment) -> None:
    run = experiment.head.order[0]
    experiment.write_level(make_record(run, 1, stopped=True))
    assert experiment.finished() == set()
    experiment.write_level(make_record(run, 1, operations=1))
    assert experiment.finished() == {(1, 1)}
    with pytest.raises(ValueError, match="already finished"):
        experiment.write_level(make_record(run, 1, operations=2))
    assert [record.operations for record in experiment.levels()] == [1]


@pytest.mark.parametrize(
    ("run", "level"), [(RunKey(1, "b", 1), 1), (RunKey(9, "a", 1), 1), (RunKey(1, "a", 1), 4)]
)
def test_a_level_of_another_experiment_is_not_kept(experiment: Experiment, run: RunKey, level: int) -> None:
    with pytest.raises(ValueError, match="not part of"):
        experiment.write_level(make_record(run, level))


def test_a_reader_can_not_write(experiment: Experiment) -> None:
    with Experiment.open(experiment.folder) as reader, pytest.raises(ValueError, match="reading only"):
        reader.write_level(make_record(reader.head.order[0], 1))


def test_notes_and_disclosure_come_back_as_they_were_written(experiment: Experiment) -> None:
    run = experiment.head.order[1]
    experiment.write_run_note(run, NOTE)
    experiment.write_host({"kernel": "6.1", "cpus": [0, 1]})
    files = {"/etc/apache2/mime.types": "text/html html\n", "httpd.conf": "ServerName \u00fc\n", "../x": "y"}
    description = {"server": "nginx", "command": ["nginx", "-c"], "files": files, "notes": []}
    experiment.write_description("a", description)
    with Experiment.open(experiment.folder) as found:
        assert found.run_notes() == {2: NOTE}
        assert found.disclosure() == {
            "host": {"kernel": "6.1", "cpus": [0, 1]},
            "servers": {"a": description},
        }


def test_a_configuration_file_can_not_lead_out_of_the_folder(experiment: Experiment) -> None:
    before = files_below(experiment.folder.parent)
    experiment.write_description("a", {"files": {"../../../escaped": "x", "/absolute": "x"}})
    made = files_below(experiment.folder.parent) - before
    assert len(made) == 3
    assert all(path.startswith("e/disclosure/a/") for path in made)


def test_a_folder_in_use_is_not_made_an_experiment(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(UserError, match="not empty"):
        Experiment.create(tmp_path, PLAN_TEXT, make_head())
    assert files_below(tmp_path) == {"thesis.txt"}


@pytest.mark.parametrize("was_there", [True, False])
def test_a_refused_experiment_goes_and_the_users_own_empty_folder_stays(
    tmp_path: Path, was_there: bool
) -> None:
    folder = tmp_path / "e"
    if was_there:
        folder.mkdir()
    made = Experiment.create(folder, PLAN_TEXT, make_head())
    assert made.discard()
    assert folder.exists() == was_there
    assert not was_there or not list(folder.iterdir())


def test_a_folder_without_a_head_is_not_an_experiment(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not an experiment"):
        Experiment.open(tmp_path)


WRITER = """
import sys
from pathlib import Path
from support.records import PLAN_TEXT, make_head, make_record
from serverdyno.store.experiment import Experiment
experiment = Experiment.create(Path(sys.argv[1]), PLAN_TEXT, make_head(repetitions=500))
print("ready", flush=True)
for run in experiment.head.order:
    for level in (1, 2, 3):
        experiment.write_level(make_record(run, level))
        print("kept", run.number, level, flush=True)
"""


def start_writer(folder: Path) -> subprocess.Popen[str]:
    package, tests = Path(serverdyno.__file__).parent.parent, TESTS
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{package}{os.pathsep}{tests}"},
    )


def lines_of(writer: subprocess.Popen[str], count: int) -> list[str]:
    assert writer.stdout is not None
    return [writer.stdout.readline() for _ in range(count)]


def test_kill_9_loses_no_level_that_was_kept_and_the_rest_can_be_written(tmp_path: Path) -> None:
    folder = tmp_path / "e"
    with start_writer(folder) as writer:
        lines_of(writer, 1 + 40)
        writer.kill()
        assert writer.stdout is not None
        kept = 40 + len([line for line in writer.stdout if line.endswith("\n")])
    with Experiment.open(folder, writable=True) as resumed:
        expected = [(run.number, level) for run in resumed.head.order for level in (1, 2, 3)]
        finished = resumed.finished()
        # The writer may have been killed between storing the last one and reporting it.
        assert finished in (set(expected[:kept]), set(expected[: kept + 1]))
        next_run, next_level = expected[len(finished)]
        resumed.write_level(make_record(resumed.head.order[next_run - 1], next_level))
        assert resumed.finished() == set(expected[: len(finished) + 1])


def test_two_writers_can_not_have_one_experiment_and_a_dead_one_lets_go(tmp_path: Path) -> None:
    folder = tmp_path / "e"
    with start_writer(folder) as writer:
        lines_of(writer, 2)
        with pytest.raises(UserError, match=f"by process {writer.pid}"):
            Experiment.open(folder, writable=True)
        with Experiment.open(folder) as reader:
            assert len(reader.levels()) >= 1
        writer.kill()
    Experiment.open(folder, writable=True).close()


def test_what_a_killed_writer_left_unfinished_is_ignored_and_then_removed(experiment: Experiment) -> None:
    experiment.write_level(make_record(experiment.head.order[0], 1))
    leftover = experiment.folder / "runs/001-a-r1/.unfinished-level-02.parquet.tmp"
    leftover.write_bytes(b"half a file")
    others = [leftover.with_name(name) for name in ("mine.tmp", ".unfinished-mine")]
    for other in others:
        other.write_text("of somebody else")
    experiment.close()
    with Experiment.open(experiment.folder) as reader:
        assert reader.finished() == {(1, 1)}
    assert leftover.exists()
    with Experiment.open(experiment.folder, writable=True) as writer:
        assert writer.finished() == {(1, 1)}
    assert not leftover.exists() and all(other.exists() for other in others)


def check_damaged(experiment: Experiment, path: str) -> None:
    """Check that reading everything fails, and that the error names the file."""
    with pytest.raises(DynoError) as caught, Experiment.open(experiment.folder) as reader:
        reader.levels()
        reader.run_notes()
        reader.disclosure()
    assert path in str(caught.value)
    assert "damaged" in str(caught.value)


@pytest.mark.parametrize(
    "path",
    [
        "experiment.json",
        "disclosure/host.json",
        "disclosure/a/description.json",
        "runs/001-a-r1/run.json",
        "runs/001-a-r1/level-01.parquet",
    ],
)
@pytest.mark.parametrize("content", [b"", b"[]", b'{"format_version": 1'])
def test_a_damaged_file_is_named(experiment: Experiment, path: str, content: bytes) -> None:
    run = experiment.head.order[0]
    experiment.write_level(make_record(run, 1))
    experiment.write_host({})
    experiment.write_description("a", {})
    experiment.write_run_note(run, RunNote(state="done"))
    (experiment.folder / path).write_bytes(content)
    check_damaged(experiment, path)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "it is empty"),
        (b'{\n  "state": }', "line 2, column 12: "),
        (b'{"state": "done"', "line 1, column 17: "),
        (b'{"state": "d\xf6ne"}', "byte 13 is not valid UTF-8"),
        (b"{}", "state: "),
        (b'{"state": "don"}', "state: "),
        (b'{"state": "done", "sessions": [{"dialect": "3.1.1"}]}', "sessions.0.max_read_bytes: "),
        (b'{"state": "done", "requests_answered": "many"}', "requests_answered: "),
    ],
)
def test_what_is_wrong_with_a_runs_note_is_said_and_the_other_notes_are_read(
    experiment: Experiment, content: bytes, problem: str
) -> None:
    first, second = experiment.head.order[:2]
    for run in (first, second):
        experiment.write_run_note(run, RunNote(state="done"))
    path = experiment.folder / "runs" / first.folder / "run.json"
    path.write_bytes(content)
    notes, [damaged] = experiment.readable_run_notes()
    assert notes == {second.number: RunNote(state="done")}
    assert f"{path} is damaged: {problem}" in str(damaged)


def test_no_flipped_bit_of_a_level_comes_out_as_another_figure(experiment: Experiment) -> None:
    run = experiment.head.order[0]
    record = make_record(run, 1)
    experiment.write_level(record)
    path = experiment.folder / "runs/001-a-r1/level-01.parquet"
    whole = path.read_bytes()
    for position in range(0, len(whole), 37):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0x10]) + whole[position + 1 :])
        try:
            found = experiment.levels()
        except DynoError as error:
            assert str(path) in str(error)
        else:
            assert found == [record], f"byte {position}"


def test_a_level_that_was_copied_into_another_place_is_refused(experiment: Experiment) -> None:
    experiment.write_level(make_record(experiment.head.order[0], 1))
    folder = experiment.folder / "runs/001-a-r1"
    (folder / "level-02.parquet").write_bytes((folder / "level-01.parquet").read_bytes())
    with pytest.raises(DynoError, match="is the record of another load level"):
        experiment.levels()


def rewrite_head(experiment: Experiment, **changes: Any) -> None:
    path = experiment.folder / "experiment.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize("version", [FORMAT_VERSION - 1, FORMAT_VERSION + 1])
def test_another_format_is_refused_with_advice(experiment: Experiment, version: int) -> None:
    rewrite_head(experiment, format_version=version, something_new=True)
    with pytest.raises(
        UserError, match=f"has format {version}; .* reads only format {FORMAT_VERSION}"
    ) as caught:
        Experiment.open(experiment.folder)
    assert "tool_version" in (caught.value.hint or "")


def test_a_head_whose_names_lead_out_of_the_folder_is_damaged(experiment: Experiment) -> None:
    path = experiment.folder / "experiment.json"
    path.write_text(path.read_text().replace('"a"', '"../a"'))
    check_damaged(experiment, "experiment.json")


def test_a_column_of_more_than_a_million_values_is_damage() -> None:
    def decoded(values: int) -> pa.Table:
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table({"a": pa.array([[0] * values], pa.list_(pa.int8()))}), sink)
        return table.decode(bytes(sink.getvalue()))

    assert decoded(table.MOST_VALUES).num_rows == 1
    with pytest.raises(ValueError, match="more than 1,000,000 values"):
        decoded(table.MOST_VALUES + 1)
