"""Messages about optional modules that are not installed. Load on one machine needs no extra."""

from __future__ import annotations

import shlex
from importlib.util import find_spec

from serverdyno.errors import UserError

EXTRAS = {
    "report": ("reports need", ("jinja2", "numpy", "scipy")),
    "pdf": ("a PDF needs", ("typst",)),
    "fleet": ("a fleet needs", ("cryptography", "dask", "distributed")),
    "live": ("local pages need", ("starlette", "uvicorn")),
}
"""For each extra of pyproject.toml: the beginning of a message, and the modules that it installs."""


def hint(extra: str = "report") -> str:
    """Return the command that installs an extra's distributions by name, without an index that has this package."""
    from importlib.metadata import requires  # noqa: PLC0415

    marker = f"extra == '{extra}'"
    wanted = (text.partition(";") for text in requires("serverdyno") or ())
    return " ".join(
        ["pip install", *(shlex.quote(name.strip()) for name, _, when in wanted if marker in when)]
    )


def missing(extra: str = "report") -> list[str]:
    """Return the modules of an extra that are not installed."""
    return [name for name in EXTRAS[extra][1] if not _is_installed(name)]


def refusal(error: ModuleNotFoundError) -> UserError | None:
    """Return the error for a missing module of an extra; None if the module belongs to no extra."""
    name = (error.name or "").partition(".")[0]
    return next((_lacks(extra, name) for extra, (_, modules) in EXTRAS.items() if name in modules), None)


def require(extra: str) -> None:
    for name in missing(extra):
        raise _lacks(extra, name)


def _lacks(extra: str, name: str) -> UserError:
    return UserError(f"{EXTRAS[extra][0]} the Python module {name}, which is not installed", hint=hint(extra))


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ImportError:
        return False
