"""`dyno servers`."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command("servers", epilog="Example: dyno servers")(servers)


def servers() -> None:
    """List the servers that can be measured: what is installed here, and what can be varied."""
    from rich.table import Table  # noqa: PLC0415

    from serverdyno.cli.output import standard_output  # noqa: PLC0415
    from serverdyno.servers.registry import DRIVERS  # noqa: PLC0415

    console = standard_output()
    for name, driver in DRIVERS.items():
        found = driver.installed()
        state = found.version if found else f"not installed (apt-get install {driver.debian_package})"
        console.print(f"[bold]{name}[/bold]  {driver.summary}", highlight=False)
        console.print(f"  {state}", highlight=False)
        settings = Table(box=None, show_header=False, padding=(0, 1, 0, 4))
        for setting, field in driver.settings_type.model_fields.items():
            settings.add_row(setting, repr(field.default), field.description)
        console.print(settings)
