"""Writes the complete documents that Rust's tests, fuzz targets and examples read, from the models of the settings.

`python tools/complete_documents.py`. A test holds the files to what this makes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from serverdyno.servers.reference_model import HttpProcess, NfsProcess, SmbProcess

CRATES = Path(__file__).resolve().parent.parent / "crates"
CAPACITY_MIB = 1024


def main() -> None:
    """Write the files; with `--check`, only exit with 1 if one is not what would be written."""
    made = {name: json.dumps(document, indent=1) + "\n" for name, document in documents().items()}
    if "--check" in sys.argv:
        stale = [name for name, text in made.items() if (CRATES / name).read_text(encoding="utf-8") != text]
        sys.exit(f"not as made: {', '.join(stale)}" if stale else 0)
    for name, text in made.items():
        (CRATES / name).write_text(text, encoding="utf-8")


def documents() -> dict[str, dict[str, Any]]:
    """Return each document by the name of its file."""
    return {
        "reference/usual/http.json": HttpProcess().document(),
        "reference/usual/smb.json": SmbProcess(capacity_mib=CAPACITY_MIB).document(),
        "reference/usual/nfs.json": NfsProcess(capacity_mib=CAPACITY_MIB).document(),
    }


if __name__ == "__main__":
    main()
