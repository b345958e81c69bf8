"""The types of a node's answers to each request. Any other answer is refused before it is used.

The values of figures are not checked. `packing.py` and `plain_comm.py` read the messages.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from serverdyno.servers.base import Access, Description


class _Snapshot(TypedDict):
    elapsed_s: float
    clients_prepared: int
    operations: int
    bytes_in: int
    bytes_moved: int
    errors: int
    clients_active: int
    p99_ms: float | None


class _Look(TypedDict):
    ended: bool
    snapshot: _Snapshot
    link_down: str | None
    in_grace: bool


class _Stage(TypedDict):
    ended: bool
    gate: int | None
    kind: Literal["begin", "end", "between"] | None
    link_down: str | None
    in_grace: bool


class _Stopped(TypedDict):
    ended: bool


class _Window(TypedDict):
    others_cpu_s: float | None
    steal_cpu_s: float | None
    cpus: int | None


class _LastLook(_Look):
    window: _Window


class _LeftOver(TypedDict):
    client: int
    share: str
    directory: str
    why: str | None


class _Removing(TypedDict):
    ended: bool
    left: list[_LeftOver]


class _Served(TypedDict):
    number: int
    access: Access
    description: Description


class _Build(TypedDict):
    version: str
    data_plane_sha256: str
    control_plane_sha256: str


class _Place(TypedDict):
    boot: str
    network: str
    time: str
    processes: str


class _Machine(TypedDict):
    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]  # pydantic looks for it here
    sysctls: dict[str, str | None]
    limits: dict[str, int]


class _Link(TypedDict):
    mbit_s: int | None
    mtu_bytes: int


class _Facts(TypedDict):
    host: str
    pid: int
    build: _Build
    place: _Place
    cpus: list[int]
    memory_available_bytes: int
    links: dict[str, _Link]
    machine: _Machine
    tls_keys_logged: bool
    refused_connections: int
    in_use: bool


_FACTS = TypeAdapter(_Facts)
_ANSWERS: dict[str, TypeAdapter[Any]] = {
    "begun": TypeAdapter(bool),
    "begin_group": TypeAdapter(_Stage | tuple[_Stage, bytes]),
    "go": TypeAdapter(_Look | tuple[_LastLook, bytes]),
    "removing": TypeAdapter(_Removing),
    "serve": TypeAdapter(_Served),
    "server": TypeAdapter(float | dict[str, float | None] | list[str] | None),
    "stop_group": TypeAdapter(_Stopped),
    "tally": TypeAdapter(tuple[_Window, bytes]),
}
_ANSWERS |= {"look": _ANSWERS["go"], "start": _ANSWERS["go"]}
_ANSWERS |= {"look_at_group": _ANSWERS["begin_group"], "open_gate": _ANSWERS["begin_group"]}
_NOTHING: TypeAdapter[Any] = TypeAdapter(None)


def check_answer(do: str, told: object) -> None:
    """Raise ValueError if `told` does not have the type of an answer to the request `do`."""
    _check(_ANSWERS.get(do, _NOTHING), told)


def check_facts(told: object) -> None:
    """Raise ValueError if `told` does not have the type of a node's facts."""
    _check(_FACTS, told)


def _check(shape: TypeAdapter[Any], told: object) -> None:
    try:
        shape.validate_python(told)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "it"
        raise ValueError(f"{place}: {first['msg']}") from error
