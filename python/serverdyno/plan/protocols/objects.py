"""Objects: clients put, get, list and delete objects in a bucket. Throughput is in operations/s and in MB/s."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import Field, model_validator

from serverdyno import wording
from serverdyno.plan.protocols.documents import requests_per_s
from serverdyno.plan.protocols.model import Model, SectionModel
from serverdyno.plan.protocols.options import Option
from serverdyno.plan.protocols.work import Fact, LevelCounts, Terms, Work
from serverdyno.units import MIB

LEAST_PART_BYTES = 5 * MIB
"""Smallest part of a multipart upload that S3 accepts, except for the last part."""
MOST_BYTES = 5 << 40
"""Largest object in S3."""
MOST_PUT_BYTES = 5 << 30
"""Largest object that S3 accepts in a single PUT."""
RECEIVE_BUFFER_BYTES = 256 * 1024
"""Size of each engine thread's receive buffer. With 64 KiB, a GET of 10 MiB needs more CPU time."""
MOST_PARTS = 10_000
"""Maximum number of parts in an S3 multipart upload."""
REPLACED_SHARE = 0.05
"""Largest share of operations replaced by PUTs that a report does not mention."""
Operation = Literal["get", "put", "head", "delete", "list", "copy", "get_range", "delete_many"]
OPERATIONS: tuple[Operation, ...] = get_args(Operation)
SHARED_SAFE: tuple[Operation, ...] = ("get", "head", "get_range")
"""Operations that read the common objects of a suite with `shared`."""


class ListedSize(Model):
    """One of several sizes."""

    bytes: int = Field(ge=0, le=MOST_BYTES, description="Size of an object.")
    weight: int = Field(default=1, ge=1, le=1_000_000, description="Weight with which this size is chosen.")


class LogNormalSize(Model):
    """Sizes with a lognormal distribution."""

    median_bytes: int = Field(ge=1, le=MOST_BYTES, description="Median of the sizes.")
    sigma: float = Field(gt=0, le=10, description="Standard deviation of the sizes' natural logarithm.")
    most_bytes: int = Field(ge=1, le=MOST_BYTES, description="Upper bound; larger sizes are reduced to it.")


class Size(Model):
    """Object sizes. Exactly one of the fields must be set."""

    fixed: int | None = Field(default=None, ge=0, le=MOST_BYTES, description="All objects have this size.")
    listed: list[ListedSize] = Field(default=[], max_length=100, description="Several sizes, with weights.")
    lognormal: LogNormalSize | None = Field(default=None, description="A lognormal distribution.")

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if sum((self.fixed is not None, bool(self.listed), self.lognormal is not None)) != 1:
            raise ValueError("needs either fixed, listed or lognormal")
        return self

    @property
    def most_bytes(self) -> int:
        """The size of the largest possible object."""
        if self.lognormal is not None:
            return self.lognormal.most_bytes
        return max([self.fixed or 0, *(each.bytes for each in self.listed)])

    def section(self) -> dict[str, Any]:
        """Return the sizes for the section `workload` of a level's document."""
        if self.fixed is not None:
            return {"fixed": self.fixed}
        if self.listed:
            return {"listed": [[each.bytes, each.weight] for each in self.listed]}
        return {"lognormal": self.lognormal.model_dump() if self.lognormal else None}

    def described(self) -> str:
        if self.fixed is not None:
            return f"{self.fixed:,} bytes"
        if self.lognormal is not None:
            found = self.lognormal
            return (
                f"lognormal sizes with a median of {found.median_bytes:,} bytes and a sigma of {found.sigma:g}, "
                f"at most {found.most_bytes:,} bytes"
            )
        whole = sum(each.weight for each in self.listed)
        parts = [f"{each.bytes:,} bytes ({wording.share(each.weight / whole)})" for each in self.listed]
        return wording.listing(parts)


class ObjectsSettings(SectionModel):
    """What clients do with objects.

    Each client thread has its own prefix with `objects` objects, which are put before the window. With `shared`,
    clients read a common set of objects that never change. With `save_objects` the objects stay from level to level;
    they are always removed after the last one.
    """

    weights: dict[Operation, Annotated[int, Field(ge=0, le=1_000_000)]] = Field(
        default={"get": 45, "put": 15, "head": 30, "delete": 10},
        description="Weights with which clients choose their next operation: get, put, head, delete, list, copy, "
        "get_range (part of an object) and delete_many (several objects in one request).",
    )
    size: Size = Field(
        default={"fixed": MIB},  # validated when it is needed: an instance would build its model at import
        validate_default=True,
        description="Sizes of objects: { fixed = BYTES }, { listed = [{ bytes, weight }] } or "
        "{ lognormal = { median_bytes, sigma, most_bytes } }.",
    )
    objects: Annotated[int, Option()] = Field(
        default=16,
        ge=1,
        le=1_000_000,
        description="Number of objects per client thread that are put before the load.",
    )
    objects_per_prefix: int = Field(
        default=1000, ge=1, le=1_000_000, description="Maximum number of objects whose keys share a prefix."
    )
    part_bytes: Annotated[int, Option()] = Field(
        default=16 * MIB,
        ge=0,
        le=5 << 30,
        description="Larger objects are put as multipart uploads with parts of this size. 0: never.",
    )
    parts_in_flight: Annotated[int, Option()] = Field(
        default=1,
        ge=1,
        le=64,
        description="Number of parts of an upload that a client sends at the same time.",
    )
    shared: bool = Field(
        default=False, description="Let all clients read a common set of objects, which nobody changes."
    )
    save_objects: bool = Field(default=True, description="Keep the objects from level to level.")

    @model_validator(mode="after")
    def _can_be_done(self) -> Self:
        if not any(self.weights.values()):
            raise ValueError("every weight is zero")
        if 0 < self.part_bytes < min(LEAST_PART_BYTES, self.size.most_bytes):
            raise ValueError(f"part_bytes must be at least {LEAST_PART_BYTES:,}, the smallest part in S3")
        if self.part_bytes and self.size.most_bytes > MOST_PARTS * self.part_bytes:
            raise ValueError(
                f"part_bytes would split an upload into more than {MOST_PARTS:,} parts, the most in S3"
            )
        if not self.part_bytes and self.size.most_bytes > MOST_PUT_BYTES:
            raise ValueError(
                f"objects above {MOST_PUT_BYTES:,} bytes need part_bytes: S3 accepts no larger object in one PUT"
            )
        return self

    @property
    def requests_per_object(self) -> float:
        """The minimum mean number of requests to put an object."""
        sizes = self.size.listed or [ListedSize(bytes=self.size.fixed or 0)]
        requests = sum(each.weight * self._requests(each.bytes) for each in sizes)
        return requests / sum(each.weight for each in sizes)

    def _requests(self, size_bytes: int) -> int:
        """Return the number of requests to put an object of this size."""
        if not 0 < self.part_bytes < size_bytes:
            return 1
        return 2 + -(-size_bytes // self.part_bytes)  # the requests that begin and end the upload

    def parameters(self) -> dict[str, Any]:
        """Return the parameters, with the sizes as the data plane gets them."""
        return {**self.model_dump(exclude={"size"}), "size": self.size.section()}

    def section(self) -> dict[str, Any]:
        """Return all parameters for the section `workload` of a level's document."""
        weights = {name: self.weights.get(name, 0) for name in OPERATIONS}
        return {
            **self.model_dump(exclude={"weights", "size", "save_objects"}),
            "weights": weights,
            "size": self.size.section(),
        }

    def described(self) -> str:
        """Describe the operations, the objects and how they are put."""
        whole = sum(self.weights.values())
        shares = [f"{name} {wording.share(count / whole)}" for name, count in self.weights.items() if count]
        parts = (
            f" Objects above {self.part_bytes:,} bytes are multipart uploads with parts of that size, "
            f"{self.parts_in_flight} at a time."
            if 0 < self.part_bytes < self.size.most_bytes
            else ""
        )
        reads = " Reads go to a common set of objects that nobody changes." if self.shared else ""
        return (
            f"{wording.listing(shares)}. Sizes: {self.size.described()}. Each client thread has "
            f"{wording.plural(self.objects, 'object')} of its own, at most {self.objects_per_prefix:,} per "
            f"prefix.{parts}{reads}"
        )


def mb_moved_per_s(record: LevelCounts) -> float:
    """Return the rate of object contents, read and written, in 10^6 bytes per second."""
    moved = sum((row.bytes_read or 0) + row.bytes_written for row in record.by_client)
    return moved * 1e-6 / record.window_s


class Objects(Work[ObjectsSettings]):
    """Operations on the objects of a bucket.

    A multipart upload is one operation, and so is a listing with all its pages.
    """

    name = "objects"
    workloads: ClassVar[Mapping[str, str]] = {
        "objects": "Check that the server has every operation of the suite, and that the access key may use it."
    }
    section = "objects"
    settings_type = ObjectsSettings
    drawn_anew = False
    has_durability = True
    durable_operations = ("put", "copy")
    durable_word = ("PUT", "PUTs")
    usage = "to measure objects, use dyno objects {url}"
    terms = Terms(
        unit="operations/s",
        column="operations_s",
        written=wording.rate,
        throughput=requests_per_s,
        second_unit="MB/s",
        second_column="mb_s",
        second_title="Throughput in MB/s of object contents",
        second_written=wording.significant,
        second=mb_moved_per_s,
        below_cache=False,
        operation="operation",
        classes="operation",
        throughput_meaning=(
            "1 MB/s is 10^6 bytes/s of object contents, read and written, without heads and framing. A "
            "multipart upload is one operation, and so is a list of all pages of a prefix."
        ),
    )

    def problems(
        self, settings: ObjectsSettings, workload: str, *, one_thread: bool, at_once: bool
    ) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Yield a problem if nothing reads the common objects."""
        del workload, one_thread, at_once
        if settings.shared and not any(settings.weights.get(name) for name in SHARED_SAFE):
            yield ("objects", "shared"), "requires a weight for get, head or get_range"

    def takes_open_load(self, workload: str) -> bool:
        """Return True, because no operation depends on an earlier answer."""
        del workload
        return True

    def replaced(self, settings: ObjectsSettings, done: Mapping[str, int]) -> str:
        """Return which operations became PUTs because clients had too few objects; empty if hardly any."""
        weights, total = settings.weights, sum(done.values())
        meant = {name: weight / sum(weights.values()) * total for name, weight in weights.items() if weight}
        more = done.get("put", 0) - meant.get("put", 0.0)
        if more <= REPLACED_SHARE * total + 3 * math.sqrt(total):
            return ""
        fewer = [
            name for name in meant if name != "put" and done.get(name, 0) < (1 - REPLACED_SHARE) * meant[name]
        ]
        return (
            f"about {round(more):,} of {total:,} operations were PUTs in place of {wording.listing(fewer)}, because a "
            "client had too few objects. Use more --objects, or give put at least the weight of all deletes together "
            "(--mix)."
        )

    def requests_per_operation(self, settings: ObjectsSettings) -> float:
        """Return the mean number of requests per operation. A multipart upload takes several."""
        puts = settings.weights.get("put", 0) / sum(settings.weights.values())
        return 1 + puts * (settings.requests_per_object - 1)

    def workload_section(self, workload: str, settings: ObjectsSettings) -> dict[str, Any]:
        """Return the workload with all parameters."""
        return {"name": workload, **settings.section()}

    def client_section(self, settings: ObjectsSettings, *, last_level: bool) -> dict[str, Any]:
        """Return the receive buffer, and whether the objects stay after the level."""
        return {
            "receive_buffer_bytes": RECEIVE_BUFFER_BYTES,
            "keep": settings.save_objects and not last_level,
        }

    def workspace_bytes(self, settings: ObjectsSettings) -> int:
        """Return the maximum total size of one thread's objects."""
        return settings.objects * settings.size.most_bytes

    def workspace_objects(self, settings: ObjectsSettings) -> int:
        return settings.objects

    def preparation_requests(self, settings: ObjectsSettings, threads: Sequence[int]) -> int:
        """Return the minimum number of requests to put the objects of all levels: PUTs, and parts of uploads."""
        sets = [max(threads, default=0)] if settings.save_objects else list(threads)
        objects = sum(sets) + (len(sets) if settings.shared else 0)
        return math.ceil(objects * settings.objects * settings.requests_per_object)

    def facts(self, settings: ObjectsSettings, client_cache: str | None) -> tuple[Fact, ...]:
        """Return the operations and the objects, and how long the objects stay."""
        del client_cache
        stay = "stay from level to level" if settings.save_objects else "are removed after each level"
        return (
            ("Operations", settings.described()),
            ("Objects", f"They are put before the measurement and {stay}."),
        )

    def verification(self, checked: str) -> str:
        """Return the sentence that says what is compared with the ledger."""
        return (
            f"Each GET against the ledger of its client: length and ETag, and the content of {checked} of them byte "
            "by byte. Each HEAD: length and ETag. Each LIST: the client's own keys, sizes and ETags. After a lost "
            "connection, the state of a key is unknown until its next PUT."
        )


OBJECTS = Objects()
