"""Write the complete documents that Rust's tests, fuzz targets and examples read, from the models of the settings.

Run `python tools/complete_documents.py`. A test checks that the files are up to date.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from generated import write_or_check

from serverdyno.fleet.document import level_document
from serverdyno.fleet.load_setup import LoadSetup
from serverdyno.plan.expand import levels
from serverdyno.plan.model import GeneratorPlan, Suite
from serverdyno.plan.protocols.access import Access
from serverdyno.plan.protocols.documents import DOCUMENTS, DYNAMIC, DocumentsSettings
from serverdyno.plan.protocols.http import HTTP, HttpSettings
from serverdyno.plan.protocols.objects import OBJECTS, ObjectsSettings
from serverdyno.plan.protocols.s3 import S3, S3Settings
from serverdyno.plan.protocols.smb import SMB, SmbSettings
from serverdyno.plan.protocols.steps import Step
from serverdyno.servers.reference_model import HttpProcess, NfsProcess, S3Process, SmbProcess

CRATES = Path(__file__).resolve().parent.parent / "crates"
CAPACITY_MIB = 1024
WEBBENCH = "webbench-static"


def main() -> None:
    made = documents().items()
    write_or_check({CRATES / name: json.dumps(document, indent=1) + "\n" for name, document in made})


def documents() -> dict[str, dict[str, Any]]:
    """Return each document by the name of its file."""
    return {
        "testserver/usual/http.json": HttpProcess().document(),
        "testserver/usual/smb.json": SmbProcess(capacity_mib=CAPACITY_MIB).document(),
        "testserver/usual/nfs.json": NfsProcess(capacity_mib=CAPACITY_MIB).document(),
        "testserver/usual/s3.json": S3Process(capacity_mib=CAPACITY_MIB).document(),
        "engine/tests/complete.json": _levels(),
    }


def _levels() -> dict[str, Any]:
    """Return the document of a level over HTTP, and the sections that differ for other kinds of work."""
    suite = Suite(name="x", source="", workload="url", clients=[2], length_s=0.2, leave_after_errors=None)
    place = SimpleNamespace(protocol=HTTP.name, section=HTTP.target_section(Access(""), HttpSettings()))
    setup = LoadSetup(suite, cast(Any, place), GeneratorPlan(), cpus=(), bounds=None)
    documents, step = DocumentsSettings(dynamic_share=0), Step(name="", path="")
    work = (WEBBENCH, "url", DYNAMIC)
    return {
        "level": level_document(levels(suite)[0], setup, seed=0) | {"nonce": 0},
        "workloads": {name: DOCUMENTS.workload_section(name, documents) for name in work},
        "step": step.section(),
        "smb": SMB.target_section(Access(""), SmbSettings()),
        "s3": S3.target_section(Access(""), S3Settings()),
        "objects": {
            "workload": OBJECTS.workload_section(OBJECTS.name, ObjectsSettings()),
            "client": OBJECTS.client_section(ObjectsSettings(), last_level=True),
        },
    }


if __name__ == "__main__":
    main()
