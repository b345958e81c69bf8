"""Re-enact the five published reports: run their plans, and write a page for each plan into `docs/gallery/`.

`python tools/gallery.py [PLAN ...]` runs all plans of `PLANS`, or the named ones, at the scale given there. Experiments
stay in `experiments/gallery-PLAN`. An interrupted experiment is resumed; a finished one is not run again. Next to each
page lies an archive with the experiment, from which `dyno report` builds the page again.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tarfile
import tomllib
from pathlib import Path

from example_report import ROOT, dyno

GALLERY = ROOT / "docs" / "gallery"
MOST_PAGE_BYTES = 1_500_000
MOST_ARCHIVE_BYTES = 3_000_000
# The published report of each plan, and a scale at which the plan takes at most two hours.
PLANS = {
    "mindcraft-1999-network": ("1999-mindcraft-linux", 0.3),
    "mindcraft-1999-network-files": ("1999-mindcraft-linux", 0.2),
    "mindcraft-1999-second": ("1999-mindcraft-linux", 0.3),
    "mindcraft-1999-second-files": ("1999-mindcraft-linux", 0.2),
    "etesting-2001-processors": ("2001-etesting-netware", 1.0),
    "etesting-2002-nfs": ("2002-etesting-sfu", 1.0),
    "veritest-2003-web-static": ("2003-veritest-iis", 1.0),
    "veritest-2003-web-dynamic-cgi": ("2003-veritest-iis", 1.0),
    "veritest-2003-web-dynamic-inprocess": ("2003-veritest-iis", 1.0),
    "veritest-2003-web-ecommerce-cgi": ("2003-veritest-iis", 1.0),
    "veritest-2003-web-ecommerce-inprocess": ("2003-veritest-iis", 1.0),
    "veritest-2004-peaks-departmental": ("2004-veritest-samba", 1.0),
    "veritest-2004-peaks-small": ("2004-veritest-samba", 1.0),
    "veritest-2004-samba": ("2004-veritest-samba", 0.5),
}


def main() -> None:
    """Write the pages. If a `dyno` command fails, exit with its status; what was measured stays."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("plans", nargs="*", metavar="PLAN", choices=[[], *PLANS], help="all if none is named")
    parser.add_argument("--scale", type=float, help="shorten every load level to this share of its length")
    arguments = parser.parse_args()
    for plan in arguments.plans or PLANS:
        report, scale = PLANS[plan]
        experiment = measured(plan, arguments.scale or scale)
        dyno("report", str(experiment), "--as", report)
        publish(experiment, plan, report)


def measured(plan: str, scale: float) -> Path:
    """Run the plan, or continue its experiment, and return the experiment's folder."""
    experiment = ROOT / "experiments" / f"gallery-{plan}"
    if experiment.exists():
        dyno("resume", str(experiment))
    else:
        dyno("run", str(ROOT / "plans" / f"{plan}.toml"), "--scale", str(scale), "--into", str(experiment))
    assert tomllib.loads((experiment / "plan.toml").read_text())["name"] == plan
    return experiment


def publish(experiment: Path, plan: str, report: str) -> None:
    """Replace the page and the archive of an earlier experiment."""
    page, archive = GALLERY / f"{plan}.html", GALLERY / f"{plan}.tar.xz"
    shutil.copyfile(experiment / "report" / f"as-{report}.html", page)
    with tarfile.open(archive, "w:xz") as tar:
        tar.add(experiment, plan, filter=lambda member: member if is_record(plan, member.name) else None)
    for file, most in ((page, MOST_PAGE_BYTES), (archive, MOST_ARCHIVE_BYTES)):
        if file.stat().st_size > most:
            sys.exit(f"{file} has more than {most:,} bytes")
        print(file)


def is_record(plan: str, member: str) -> bool:
    """Return whether a file of the experiment belongs in the archive: reports are built from the others."""
    return not member.startswith((f"{plan}/report", f"{plan}/.lock"))


if __name__ == "__main__":
    main()
