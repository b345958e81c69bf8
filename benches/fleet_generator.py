"""One mix from a fleet, with this process as its controller: `python -m benches.fleet_generator '{"fleet": ..., ...}'`.

The answer is that of `benches.generator`, with the CPU time of the node and not of this process. Not for experiments.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from benches.generator import DRAIN_S, told
from benches.mixes import document, http_target
from serverdyno.fleet.contract import Node
from serverdyno.fleet.membership import fleet_at
from serverdyno.plan.model import GeneratorPlan

NO_SECRETS: dict[str, str | None] = {"consent_token": None, "password": None}


def main() -> None:
    """Runs the mix that the only argument describes."""
    print(json.dumps(run(json.loads(sys.argv[1]))))


def run(options: dict[str, Any]) -> dict[str, Any]:
    """`options`: `fleet`, its folder, `url`, and the shape of a mix of the workload `url`. Raises RuntimeError where
    it does not end.
    """
    target = http_target(options.pop("url"))
    with fleet_at(Path(options.pop("fleet")), GeneratorPlan(), target, NO_SECRETS) as fleet:
        before = _cpu_s(fleet.nodes)
        load = fleet.start(document(target, {"name": "url"}, {}, **options))
        if not load.wait(options["length_s"] + DRAIN_S):
            raise RuntimeError("the mix does not end")
        result = load.result()
        used_s = _cpu_s(fleet.nodes) - before
    return {
        **told(result),
        "cpu_user_s": used_s,
        "cpu_system_s": 0.0,
        "elsewhere_cpu_s": used_s,
        "rss_growth_bytes": None,
    }


def _cpu_s(nodes: list[Node]) -> float:
    return sum(node.cpu_s() for node in nodes)


if __name__ == "__main__":
    main()
