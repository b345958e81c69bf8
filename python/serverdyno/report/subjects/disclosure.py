"""The disclosure: all stored facts about hosts and servers. The layout does not depend on the names of the fields.

Short values become facts. Texts of several lines, such as configuration files, become whole documents.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any

from serverdyno import wording
from serverdyno.report.model import DisclosedText, Disclosure, Fact

LONGEST_FACT = 400


def disclosure(kept: Mapping[str, Any]) -> tuple[Disclosure, ...]:
    """Return one entry for each host, kind of node and server, in the order of the store."""
    if isinstance(fleet := kept.get("fleet"), Mapping):
        kept = {**kept, "fleet": folded(fleet)}
    return tuple(subject for subject in _subjects("", _plain(kept)) if subject.facts or subject.documents)


def folded(fleet: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the nodes of a fleet, including those with servers, and their network.

    Equal nodes share one entry with all their names.
    """
    network = fleet.get("network")
    shown = network.items() if isinstance(network, Mapping) else ()
    kinds: dict[str, tuple[list[str], dict[str, Any]]] = {}
    for role, mark in (("nodes", ""), ("serving", " (server)")):
        nodes = fleet.get(role)
        for node in nodes if isinstance(nodes, list) else ():
            if not isinstance(node, Mapping):
                continue
            facts = {key: value for key, value in node.items() if key not in ("node", "host", "address")}
            names, _ = kinds.setdefault(json.dumps(facts, sort_keys=True, default=str), ([], facts))
            names.append(f"{node.get('node')}{mark}")
    return {
        **{f"network, {name}": facts for name, facts in shown if isinstance(facts, Mapping)},
        **{
            f"{'node' if len(names) == 1 else 'nodes'} {wording.listing(names)}": facts
            for names, facts in kinds.values()
        },
    }


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, Mapping):
        return {f"{key}": _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return value


def _subjects(title: str, value: Mapping[str, Any]) -> Iterator[Disclosure]:
    """Yield one entry per item if all values are mappings; otherwise one entry."""
    if value and all(isinstance(item, Mapping) for item in value.values()) and not _is_texts(value):
        for name, item in value.items():
            yield from _subjects(f"{title}: {_words(name)}" if title else _words(name).capitalize(), item)
        return
    facts, documents = [], []
    for path, item in _leaves("", _with_effective(value)):
        if _is_document(item):
            documents.append(DisclosedText(path, f"{item}"))
        else:
            facts.append(Fact(path, _said(path, item)))
    yield Disclosure(title or "Experiment", tuple(facts), tuple(documents))


def _with_effective(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a server's settings, with the effective value of those left at their default, if known."""
    settings, effective = value.get("settings"), value.get("effective")
    if not isinstance(settings, Mapping) or not isinstance(effective, Mapping):
        return value
    defaults = {
        name: f"{_fact(effective[name])} (default)"
        for name, item in settings.items()
        if item is None and effective.get(name) is not None
    }
    rest = {name: item for name, item in value.items() if name != "effective"}
    return {**rest, "settings": {**settings, **defaults}}


def _is_texts(value: Mapping[str, Any]) -> bool:
    return all(isinstance(item, str) for item in value.values())


def _leaves(path: str, value: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, item in value.items():
        # File names and sysctls are shown as they are; other names are words joined by underscores.
        alone = "/" in name or "." in name
        place = name if alone else f"{path}, {_words(name)}" if path else _words(name)
        if isinstance(item, Mapping):
            yield from _leaves("" if name == "files" else place, item)
        else:
            yield place, item


def _words(name: str) -> str:
    return name.replace("_", " ")


def _is_document(item: Any) -> bool:
    return isinstance(item, str) and ("\n" in item.strip() or len(item) > LONGEST_FACT)


def _said(path: str, item: Any) -> str:
    if path == "command" and isinstance(item, list):
        return shlex.join(f"{word}" for word in item)
    if item is None and path.startswith("settings"):
        return "not set"  # None means that the setting was left at its default
    return _fact(item)


def _fact(item: Any) -> str:
    if item is None:
        return "not known"
    if isinstance(item, bool):
        return "yes" if item else "no"
    if isinstance(item, list):
        return (
            ", ".join(_fact(part) if not isinstance(part, Mapping) else _pairs(part) for part in item)
            or "none"
        )
    return f"{item}" or wording.NOTHING


def _pairs(part: Mapping[str, Any]) -> str:
    return " ".join(f"{_words(name)} {_fact(value)}" for name, value in part.items())
