"""Two builds of ours against each other: what a change costs in the generator's CPU time for a request.

The other build is another checkout with its native module built in it, so that each is called as it was written:
`git worktree add ../before COMMIT`, `make -C ../before setup`, then `python -m benches --against ../before`.
Both meet the same server, which is this checkout's, or nginx.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from benches.ratios import Bound
from benches.speed import Case, Goal, cases
from benches.tools import Tool, dyno

OF_SPEED = (
    "reference-keep-alive",
    "reference-close",
    "nginx-sendfile-off-keep-alive",
    "nginx-sendfile-off-close",
)
BEFORE = "dyno, other build"
LIMIT = Bound(1.01, at_least=False)


def of_other(checkout: Path, tool: Tool) -> Tool:
    """The same tool of the other checkout."""

    def command(url: str, seconds: float) -> list[str]:
        environment = ["env", f"--chdir={checkout}", f"PYTHONPATH={checkout / 'python'}"]
        return [*environment, *tool.command(url, seconds)]

    return replace(tool, name=BEFORE, command=command)


def build_cases(checkout: Path) -> Iterator[Case]:
    """The comparisons of `speed` with a row for each build instead of the peers."""
    for case in cases():
        if case.name in OF_SPEED:
            ours = dyno(keep_alive=case.name.endswith("keep-alive"))
            yield replace(
                case,
                name=f"builds-{case.name}",
                tools=(ours, of_other(checkout.resolve(), ours)),
                goals=(Goal(ours.name, (BEFORE,), "generator CPU, us/request", LIMIT),),
            )
