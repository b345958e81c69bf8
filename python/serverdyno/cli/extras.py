"""What an installation without the extras `report`, `fleet` and `live` lacks, in words. Load of one machine needs none
of it."""

from __future__ import annotations

from importlib.util import find_spec

from serverdyno.errors import UserError

OF_REPORTS = ("jinja2", "numpy", "scipy", "typst", "vl_convert")
"""The modules of the extra, as pyproject.toml lists their distributions."""
OF_PAGES = ("starlette", "uvicorn")
"""The same of the extra `live`."""
HINT = "pip install 'serverdyno[report]'"
OF_FLEETS = ("cryptography", "dask", "distributed")
"""The modules of the extra `fleet`."""
FLEET_HINT = "pip install 'serverdyno[fleet]'"


def missing() -> list[str]:
    """Return the modules of the extra that are not installed."""
    return [name for name in OF_REPORTS if not _is_installed(name)]


def refusal(error: ModuleNotFoundError) -> UserError | None:
    """Return what to tell the user of a module of an extra that is missing; None: it is another module."""
    name = (error.name or "").partition(".")[0]
    for modules, what, hint in (
        (OF_REPORTS, "reports need", HINT),
        (OF_FLEETS, "a fleet needs", FLEET_HINT),
        (OF_PAGES, "local pages need", "pip install 'serverdyno[live]'"),
    ):
        if name in modules:
            return UserError(f"{what} the Python module {name}, which is not installed", hint=hint)
    return None


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ImportError:
        return False
