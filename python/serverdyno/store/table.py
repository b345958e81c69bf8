"""Records of load levels as Parquet. The columns are the fields of the record classes, with the same nesting.

This module works on bytes and opens no file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from itertools import islice
from types import NoneType
from typing import Any, get_args

import pyarrow as pa
import pyarrow.parquet as pq

from serverdyno.store.records import LevelRecord, column_types

MOST_VALUES = 1_000_000
MOST_UNPACKED_BYTES = 1 << 28
_PLAIN_TYPES = {int: pa.int64(), float: pa.float64(), str: pa.string(), bytes: pa.binary(), bool: pa.bool_()}


def encode(record: LevelRecord) -> bytes:
    """Return one level as a Parquet file of one row, with checksums."""
    sink = pa.BufferOutputStream()
    table = pa.Table.from_pylist([dataclasses.asdict(record)], schema=SCHEMA)
    # Statistics and dictionaries help large tables; in a table of one row they would be most of the file.
    pq.write_table(
        table,
        sink,
        compression="zstd",
        write_page_checksum=True,
        write_statistics=False,
        use_dictionary=False,
        store_schema=False,
    )
    return bytes(sink.getvalue())


def decode(content: bytes) -> pa.Table:
    """Return the table of a Parquet file with any columns. Raises ArrowException, OSError or ValueError if damaged."""
    file = pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True)
    _check_size(file.metadata)
    table = file.read(use_threads=False)
    if any(_values_of(column) > MOST_VALUES for column in table.columns):
        raise ValueError(f"a column has more than {MOST_VALUES:,} values")
    return table


def _values_of(column: pa.ChunkedArray) -> int:
    """Return the number of values in a column, including values in lists."""
    if not pa.types.is_list(column.type):
        return len(column)
    return sum(len(chunk.flatten()) for chunk in column.chunks)


def _check_size(found: pq.FileMetaData) -> None:
    """Raise ValueError if a table is too large for a level, before it is decompressed."""
    if (found.num_rows, found.num_row_groups) != (1, 1):
        raise ValueError(
            f"it has {found.num_rows:,} rows in {found.num_row_groups:,} row groups instead of one row in one group"
        )
    # Don't inspect individual columns before reading them: Arrow 26 aborts the process if their metadata are damaged.
    if found.row_group(0).total_byte_size > MOST_UNPACKED_BYTES:
        raise ValueError(f"it has more than {MOST_UNPACKED_BYTES >> 20} MiB when decompressed")


def records(tables: Sequence[pa.Table]) -> list[LevelRecord]:
    """Return the records of tables with the columns of `SCHEMA`, in order."""
    if not tables:
        return []
    # Convert all tables at once, column by column, because a report reads hundreds of tables with many nested rows.
    whole = pa.concat_tables(tables).combine_chunks()
    return _rows([column.chunk(0) for column in whole.columns], LevelRecord)


def _rows(columns: Sequence[Any], row_type: Callable[..., Any]) -> list[Any]:
    types = column_types(row_type)
    values = [_values(column, hint) for column, hint in zip(columns, types.values(), strict=True)]
    if row_type is LevelRecord:
        return [LevelRecord(**dict(zip(types, row, strict=True))) for row in zip(*values, strict=True)]
    return [row_type(*row) for row in zip(*values, strict=True)]


_NUMBERS = {pa.int64(): "q", pa.float64(): "d"}
"""Formats of numbers in Arrow's memory, as letters of the module `struct`."""


def _values(column: Any, hint: Any) -> list[Any]:
    if pa.types.is_list(column.type):
        nested = iter(_rows(column.flatten().flatten(), get_args(hint)[0]))
        return [list(islice(nested, length)) for length in column.value_lengths().to_pylist()]
    code = _NUMBERS.get(column.type)
    if code is None or column.null_count or not len(column):
        pythonic: list[Any] = column.to_pylist()
        return pythonic
    # This is several times as fast as `to_pylist`. `to_numpy` would be as fast, but load must not require numpy.
    memory: Any = memoryview(column.buffers()[1])
    numbers: list[Any] = memory.cast(code)[column.offset : column.offset + len(column)].tolist()
    return numbers


def _schema(row_type: Any) -> pa.Schema:
    return pa.schema([_field(name, hint) for name, hint in column_types(row_type).items()])


def _field(name: str, hint: Any) -> Any:
    """Return a column: of a plain type, of an optional plain type, or a list of rows."""
    arguments = get_args(hint)
    if hint in _PLAIN_TYPES:
        return pa.field(name, _PLAIN_TYPES[hint], nullable=False)
    if NoneType in arguments:
        return pa.field(name, _PLAIN_TYPES[arguments[0]], nullable=True)
    row = pa.struct(list(_schema(arguments[0])))
    return pa.field(name, pa.list_(pa.field("element", row, nullable=False)), nullable=False)


SCHEMA = _schema(LevelRecord)


def in_order(found: pa.Table) -> pa.Table:
    """Return the table with its columns in the order of `SCHEMA`; unchanged if it has other columns."""
    return found.select(SCHEMA.names) if sorted(found.schema.names) == sorted(SCHEMA.names) else found
