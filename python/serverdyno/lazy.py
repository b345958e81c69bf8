"""A table whose values are created at first use, for drivers and commands, each of which imports modules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping
from typing import TypeVar

Value = TypeVar("Value")


class LazyTable(MutableMapping[str, Value]):
    """Values by name, in the order of `names`. `make` is called once per name, when its value is first read."""

    def __init__(self, names: Iterable[str], make: Callable[[str], Value]) -> None:
        self._names = dict.fromkeys(names)
        self._make = make
        self._made: dict[str, Value] = {}

    def __getitem__(self, name: str) -> Value:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def __setitem__(self, name: str, value: Value) -> None:
        self._names[name] = None
        self._made[name] = value

    def __delitem__(self, name: str) -> None:
        del self._names[name]
        self._made.pop(name, None)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
