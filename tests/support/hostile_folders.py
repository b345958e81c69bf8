"""A table of ways in which an experiment's folder can be damaged, by accident or on purpose."""

from __future__ import annotations

import json
import math
import os
import random
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from serverdyno.store import table

Damage = Callable[[Path], None]
HEAD, HOST = "experiment.json", "disclosure/host.json"
DESCRIPTION, NOTE = "disclosure/apache/description.json", "runs/001-apache-r1/run.json"
LEVEL = "runs/001-apache-r1/level-01.parquet"
HUGE = 10**18


def _each(path: str, values: Sequence[Any]) -> list[tuple[str, Any]]:
    return [(path, value) for value in values]


TEXTS: dict[str, bytes] = {
    "nothing": b"",
    "a bracket": b"[",
    "null": b"null",
    "a text": b'"text"',
    "a number": b"1",
    "an empty object": b"{}",
    "an empty list": b"[]",
    "a list of nothing": b"[null]",
    "no UTF-8": b'{"state": "\xff\xfe"}',
    "a byte order mark": b"\xef\xbb\xbf{}",
    "objects 200 deep": b'{"a":' * 200 + b"1" + b"}" * 200,
    "lists 100,000 deep": b"[" * 100_000,
    "objects 100,000 deep": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "a number of 5,000 digits": b'{"state": ' + b"9" * 5000 + b"}",
}
VALUES: dict[str, str] = {
    "half a character": '"\\ud800"',
    "no number": "NaN",
    "an infinity": "1e999",
    "a number of 4,000 digits": "9" * 4000,
    "a list": "[[1], {}]",
}

HEADS: list[tuple[str, Any]] = [
    *_each("format_version", (0, 1, 3, -1, True, "2", None, 10**30)),
    *_each("seed", (-1, 10**40, 1.5, None)),
    *_each("scale", (0, -1, 1e-300, 2)),
    *_each("created", ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "soon", 0, 1e18)),
    *_each("configurations.0.name", ("../x", "a/b", "", "a" * 300, "nginx", None)),
    *_each("configurations.0.url", ("http://[::1", "http://[x]/", "\n", "http://a:99999/", "x" * 9000)),
    *_each("configurations.0.cpus", ([-1], [10**9], list(range(5000)), [1, 1])),
    *_each("configurations.0.settings", ({"fsync_delay_ms": "x"}, {"": [[]]}, [], {"volumes": -1})),
    *_each("levels.0.clients", (0, -1, HUGE)),
    *_each("levels.0.threads", (0, -1, HUGE)),
    *_each("levels.0.length_s", (0, -1, 1e308, 1e-300)),
    *_each("levels.0.ramp_up_s", (-1, 1e308, 300)),
    *_each("levels.0.index", (0, -1, 2, HUGE)),
    *_each("levels", ([], {}, [1])),
    *_each("order.0.number", (0, -1, 2, HUGE)),
    *_each("order.0.repetition", (0, -1, HUGE)),
    *_each("order", ([], [{}])),
    (
        "order",
        [{"number": number, "configuration": "apache", "repetition": 1} for number in range(1, 50_000)],
    ),
    ("order", [{"number": number, "configuration": "apache", "repetition": 1} for number in (1, 2)]),
    *_each("suites.0.clients", ([], [0], [10**9], [8, 1])),
    *_each("suites.0.length_s", (0, 1e308)),
    *_each("suites.0.ramp_up_s", (1e308, 300)),
    *_each("suites.0.workload", ("url", "diskmix", "none")),
    *_each("suites", ([], [{}])),
    *_each("levels.0.suite", ("", "another", 1)),
    *_each("levels.0.step", ("", "putc", 1)),
    *_each("plan.generator.cpus", ([-1], [10**9])),
    *_each("plan.generator.threads", (0, HUGE)),
    *_each("plan.repetitions", (0, 1000)),
    *_each("plan.minimum_effect_percent", (-1, 1000)),
    *_each("plan.title", ("", "x" * 100_000, "\x1b[2J\x00\x7f", None)),
]
NOTES: list[dict[str, Any]] = [
    {"state": "done", "requests_answered": -1},
    {"state": "done", "requests_answered": 0, "requests_by_server_count": 10**17},
    {"state": "done", "crashes": "all"},
    {"state": "done", "crashes": ["\x1b]0;x\x07" * 9000]},
    {"state": "failed", "reason": None},
    {"state": "failed", "reason": "\x1b[31m" * 100_000},
    {"state": "done", "media": [[{"file_system": 1}]]},
    {"state": "done", "media": [[]] * 1000},
    {"state": "done", "disk_fsync_ms": {"count": 0, "p50": 0, "p99": 0, "max": 0}},
    {"state": "done", "disk_fsync_ms": {"count": 1, "p50": -1, "p99": 0, "max": 0}},
    {"state": "done", "from_level": 0},
    {"state": "lost", "from_level": 99},
]
DESCRIPTIONS: list[tuple[str, Any]] = [
    ("version", 1),
    ("version", None),
    ("version", []),
    ("command", "nginx -c"),
    ("command", [1, None]),
    ("command", 7),
    ("settings", []),
    ("settings", "x"),
    ("settings", {"volumes": 10**17}),
    ("settings", {"a": {"b": {"c": [1, {"d": None}]}}}),
    ("files", {}),
    ("files", None),
    ("files", [1]),
    ("files", ["missing"]),
    ("files", ["../../../../etc/passwd"]),
    ("files", ["."]),
    ("notes", "Network: x"),
    ("notes", [1, {}, None]),
    ("server", {}),
    ("", {"a": 1}),
]
HOSTS: list[Any] = [
    {"cpu": "x", "system": []},
    {"cpu": {"model": {}, "logical": "many"}, "system": {"kernel": ["6"]}},
    {"cpu": {"model": "x" * 100_000}},
    {"a": {"b": {"c": {}}}, "d": {}},
    {"": {"": {"": ""}}},
    {"command": 5},
    {"command": [[1]]},
    {"files": {"files": {"files": "x"}}},
]
HISTOGRAMS: dict[str, bytes] = {
    "no histogram": b"\x00\x1c\x84\x93" * 300,
    "one byte": b"\x01",
    "half a histogram": struct.pack(">iiii", 0x1C849313, 40, 0, 3),
    "a histogram of nothing": struct.pack(">iiiiqqd", 0x1C849313, 0, 0, 3, 1, 1 << 42, 1.0),
    "a histogram of negative length": struct.pack(">iiiiqqd", 0x1C849313, -1, 0, 3, 1, 1 << 42, 1.0),
    "a histogram with many digits": struct.pack(">iiiiqqd", 0x1C849313, 0, 0, 9, 1, 1 << 42, 1.0),
    "the largest histogram": struct.pack(">iiiiqqd", 0x1C849313, 0, 0, 5, 1, (1 << 63) - 1, 1.0),
    "a histogram without a range": struct.pack(">iiiiqqd", 0x1C849313, 0, 0, 3, 0, 0, 0.0),
    "a count beyond all": struct.pack(">iiiiqqd", 0x1C849313, 9, 0, 3, 1, 1 << 42, 1.0)
    + b"\xfe"
    + b"\xff" * 8,
}
ROWS: list[tuple[str, Any]] = [
    *_each("window_s", (0.0, -1.0, float("nan"), float("inf"), 1e-320)),
    *_each("length_s", (0.0, -1.0, float("nan"))),
    *_each("clients", (0, -1, HUGE)),
    *_each("threads", (0, -1, HUGE)),
    *_each("operations", (-1, 2**63 - 1)),
    *_each("bytes_read", (-1, 2**63 - 1)),
    ("started_unix_s", 1e300),
    *_each("generator_threads", (0, HUGE)),
    ("rate_per_s", 0),
    ("response_time_hdr", b""),
    ("server_cpu_s", 1e300),
    ("generator_cpu_user_s", float("nan")),
    ("ready_work_s", -1.0),
    ("outstanding_s", float("nan")),
    ("server_cpu_s", float("inf")),
    ("run", 9),
    ("level", 9),
    ("name", "\x1b[2J\x00" * 10_000),
    ("by_second", [{"second": 2**62, "operations": 1, "bytes_in": 1, "errors": 0}]),
    ("by_second", [{"second": -1, "operations": 1, "bytes_in": 1, "errors": 0}]),
    ("by_second", []),
    ("by_client", []),
    ("by_operation", []),
    ("errors", [{"side": "nobody", "fault": "\x1b", "count": -1, "in_window": 2**62, "example": "\x00"}]),
    ("errors", [{"side": "server", "fault": "x", "count": 2**62, "in_window": 2**62, "example": "x"}] * 3),
    ("syncs", [{"system_call": "fsync", "count": -5}]),
]


def cases() -> Iterator[tuple[str, Damage]]:
    """Yield each kind of damage with its name."""
    for file in (HEAD, HOST, DESCRIPTION, NOTE):
        for name, content in TEXTS.items():
            yield f"{file} is {name}", _with(file, content)
        for name, text in VALUES.items():
            yield f"{file} holds {name}", _with_value(file, text)
    for path, value in HEADS:
        yield f"head: {path} is {value!r:.30}", _changed(HEAD, path, value)
    for value in NOTES:
        yield f"note: {value!r:.60}", _with(NOTE, json.dumps(value).encode())
    for path, value in DESCRIPTIONS:
        yield f"description: {path} is {value!r}", _changed(DESCRIPTION, path, value)
    for value in HOSTS:
        yield f"host: {value!r:.60}", _with(HOST, json.dumps(value).encode())
    yield from _levels()


def _levels() -> Iterator[tuple[str, Damage]]:
    for path, value in ROWS:
        yield f"level: {path} is {value!r:.40}", _row(**{path: value})
    for column in ("response_time_hdr", "connect_time_hdr", "loop_lag_hdr"):
        for name, content in HISTOGRAMS.items():
            yield f"level: {column} is {name}", _row(**{column: content})
    for name, content in HISTOGRAMS.items():
        yield f"level: an operation has {name}", _operation(content)
    for share in (1, 2, 3, 5, 9):
        yield f"level: cut after {share}/10", _cut(share)
    yield "level: no Parquet", _with(LEVEL, b"PAR1" + os.urandom(500) + b"PAR1")
    yield "level: its footer is long", _with(LEVEL, b"PAR1" + b"\0" * 8 + b"\xff\xff\xff\x7f" + b"PAR1")
    yield "level: two rows", _parquet(lambda level: pa.concat_tables([level, level]))
    yield "level: no row", _parquet(lambda level: level.slice(0, 0))
    yield "level: no columns", _parquet(lambda level: level.select([]))
    yield "level: a column less", _parquet(lambda level: level.drop_columns(["operations"]))
    yield "level: another type", _parquet(lambda level: _replaced(level, "operations", pa.array(["many"])))
    yield "level: no text", _parquet(_no_text)
    yield "level: twenty million rows", _parquet(lambda _: pa.table({"a": pa.nulls(20_000_000)}))
    yield "level: two million clients", _parquet(_many_clients)


def changed_at_random(folder: Path, choose: random.Random) -> None:
    """Change one value of one JSON file, or of one or all levels."""
    levels, others = ([*folder.rglob(f"*.{kind}")] for kind in ("parquet", "json"))
    if choose.random() < 0.6:
        where = choose.random()
        for path in levels if choose.random() < 0.4 else [choose.choice(levels)]:
            [row] = table.decode(path.read_bytes()).to_pylist()
            _change_leaf(row, random.Random(where))
            with suppress(pa.ArrowException, TypeError, OverflowError):  # no column can have that value
                pq.write_table(pa.Table.from_pylist([row], schema=table.SCHEMA), path, store_schema=False)
    else:
        path = choose.choice(others)
        whole = json.loads(path.read_text())
        _change_leaf(whole, choose)
        _write(path, json.dumps(whole).encode())


def _change_leaf(whole: Any, choose: random.Random) -> None:
    inner, place = choose.choice([*_leaves(whole)])
    match inner[place]:
        case str():
            inner[place] = choose.choice(["", "x" * 200, "\x1b[2J", "\u017e", "../x", None, 5, [], {}])
        case bytes(content):
            inner[place] = choose.choice([b"", content[: len(content) // 2]])
        case list(rows):
            inner[place] = choose.choice([[], rows * 2, rows[:-1]])
        case _:
            inner[place] = choose.choice(
                [0, 1, -1, 2, 0.5, 2**31, 2**53, 2**63 - 1, 1e-300, 1e300, math.nan, None]
            )


def _leaves(whole: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each value with its container; a list is a value, too."""
    for place, value in whole.items() if isinstance(whole, dict) else enumerate(whole):
        if isinstance(value, dict | list):
            yield from _leaves(value)
        if not isinstance(value, dict):
            yield whole, place


def _with(file: str, content: bytes) -> Damage:
    return lambda folder: _write(folder / file, content)


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _with_value(file: str, text: str) -> Damage:
    """Add a name at the start of the object in a file."""

    def damage(folder: Path) -> None:
        whole = (folder / file).read_text()
        _write(folder / file, whole.replace("{", f'{{"more": {text}, ', 1).replace(", }", "}").encode())

    return damage


def _changed(file: str, path: str, value: Any) -> Damage:
    def damage(folder: Path) -> None:
        whole = json.loads((folder / file).read_text())
        *outer, last = path.split(".")
        inner = whole
        for part in outer:
            inner = inner[int(part) if part.isdigit() else part]
        inner[last] = value
        _write(folder / file, json.dumps(whole).encode())

    return damage


def _row(**changed: Any) -> Damage:
    def change(level: pa.Table) -> pa.Table:
        [row] = level.to_pylist()
        return pa.Table.from_pylist([row | changed], schema=table.SCHEMA)

    return _parquet(change)


def _operation(histogram: bytes) -> Damage:
    def change(level: pa.Table) -> pa.Table:
        [row] = level.to_pylist()
        row["by_operation"][0]["response_time_hdr"] = histogram
        return pa.Table.from_pylist([row], schema=table.SCHEMA)

    return _parquet(change)


def _parquet(change: Callable[[pa.Table], pa.Table]) -> Damage:
    def damage(folder: Path) -> None:
        pq.write_table(
            change(table.decode((folder / LEVEL).read_bytes())), folder / LEVEL, store_schema=False
        )

    return damage


def _cut(tenths: int) -> Damage:
    def damage(folder: Path) -> None:
        content = (folder / LEVEL).read_bytes()
        _write(folder / LEVEL, content[: len(content) * tenths // 10])

    return damage


def _replaced(level: pa.Table, name: str, column: Any) -> pa.Table:
    place = level.schema.get_field_index(name)
    return level.set_column(place, pa.field(name, column.type, nullable=False), column)


def _no_text(level: pa.Table) -> pa.Table:
    wrong = pa.array([b"\xff\xfe\xfd"]).view(pa.string())
    return _replaced(level, "name", wrong)


def _many_clients(level: pa.Table) -> pa.Table:
    """Add so many equal clients that they compress to a few bytes."""
    kind = table.SCHEMA.field("by_client").type
    rows = pa.StructArray.from_arrays(
        [pa.repeat(pa.scalar(0, field.type), 2_000_000) for field in kind.value_type],
        fields=list(kind.value_type),
    )
    column = pa.ListArray.from_arrays(pa.array([0, 2_000_000], pa.int32()), rows).cast(kind)
    return _replaced(level, "by_client", column)
