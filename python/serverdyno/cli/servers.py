"""`dyno servers`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from serverdyno.servers.base import ServerDriver

OF_EXTERNALS = ("url", "bounds")
"""Keys of a plan's server that apply only to a user's own server."""


def register(app: typer.Typer) -> None:
    app.command("servers", epilog="Example: dyno servers")(servers)


def servers(
    names: Annotated[
        list[str] | None, typer.Argument(help="Show the settings of these servers. Default: list all.")
    ] = None,
) -> None:
    """List the servers that can be measured, with installed versions; with NAMES, their settings."""
    from rich.markup import escape  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    from serverdyno.cli.output import standard_output  # noqa: PLC0415
    from serverdyno.plan.model import ServerPlan  # noqa: PLC0415
    from serverdyno.servers.registry import DRIVERS, driver_type  # noqa: PLC0415

    console = standard_output()
    if not names:
        listed = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        for name in DRIVERS:
            driver = driver_type(name)
            listed.add_row(f"[bold]{name}[/bold]", driver.summary, _state(driver))
        console.print(listed, highlight=False)
        console.print("dyno servers NAME lists the settings of a server.", highlight=False)
        return
    for name, driver in {name: driver_type(name) for name in names}.items():
        console.print(f"[bold]{name}[/bold]  {driver.summary}", highlight=False)
        console.print(f"  {_state(driver)}", highlight=False)
        settings = Table(box=None, show_header=False, padding=(0, 1, 0, 4))
        if driver.settings_type.is_external:
            for key in OF_EXTERNALS:
                settings.add_row(key, "", f"{ServerPlan.model_fields[key].description} Not under settings.")
        for setting, field in driver.settings_type.model_fields.items():
            settings.add_row(setting, escape(repr(field.default)), escape(field.description or ""))
        console.print(settings)


def _state(driver: type[ServerDriver]) -> str:
    found = driver.installed()
    if found:
        return found.version
    package = driver.debian_package
    return f"not installed ({'make servers-objects' if package is None else f'apt-get install {package}'})"
