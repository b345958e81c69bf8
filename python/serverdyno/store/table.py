"""Mix records as Parquet and back. The columns are the fields of the record classes; rows nest as they do.

No files are opened here: bytes go out, tables come in.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterable
from typing import Any, Union, get_args, get_origin, get_type_hints

import pyarrow as pa
import pyarrow.parquet as pq

from serverdyno.store.records import MixRecord

_PLAIN_TYPES = {
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    bool: pa.bool_(),
}


def encode(record: MixRecord) -> bytes:
    """One mix as a Parquet file of one row."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist([dataclasses.asdict(record)], schema=SCHEMA), sink, compression="zstd")
    content: bytes = sink.getvalue().to_pybytes()
    return content


def decode(content: bytes) -> pa.Table:
    """The table of a Parquet file, whatever its columns. Raises pyarrow.ArrowException or OSError where it is none."""
    return pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False)


def records(tables: Iterable[pa.Table]) -> list[MixRecord]:
    """The records of several tables. Raises pyarrow.ArrowInvalid where a table's columns are not those of a record."""
    whole = pa.concat_tables([table.cast(SCHEMA) for table in tables]) if tables else SCHEMA.empty_table()
    columns = [_values(column.combine_chunks(), field.type) for column, field in zip(whole.columns, SCHEMA)]
    return []
