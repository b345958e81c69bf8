"""Suites whose levels end when their work is done, as text: a small Bonnie, and steps."""

from __future__ import annotations

HEAD = """
name = "{name}"
source = "a test"
workload = "{workload}"
clients = [{clients}]
length_s = 600
"""


def bonnie_suite(name: str, *, clients: int = 1, **settings: int) -> str:
    table = "".join(f"{key} = {value}\n" for key, value in settings.items())
    return HEAD.format(name=name, workload="bonnie", clients=clients) + f"[files.bonnie]\n{table}"


def steps_suite(name: str, steps: str) -> str:
    """Return a suite of steps; `steps` has trees, local files and steps as TOML tables."""
    for table in ("[trees.", "[local.", "[[steps]]"):
        inside = (
            table.replace("[", "[files.scenario.") if table != "[[steps]]" else "[[files.scenario.steps]]"
        )
        steps = steps.replace(table, inside)
    return HEAD.format(name=name, workload="scenario", clients=1) + steps
