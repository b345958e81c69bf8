"""The report as PDF: Typst lays out the JSON document and the drawings with `templates/report.typ`.

Liberation Sans (SIL Open Font License) is bundled, because Typst has no sans serif font with the letter widths that
the drawings assume. System fonts and the network are not used.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

import typst

from serverdyno.report.model import Report
from serverdyno.report.views import alt
from serverdyno.report.views.shared import shared

TEMPLATE = "report.typ"


def _shared(report: Report) -> str:
    """Return the template's additional input as JSON: table notes, alternative texts, and lines of the answer."""
    found = shared(report)
    words = {figure.key: alt.text(figure) for figure in report.figures}
    return json.dumps(
        {"basis": found.basis, "notes": found.notes, "alt": words, "lines": report.answer.lines}
    )


def pages(report: Report, document: bytes, drawings: Mapping[str, str]) -> bytes:
    """Return the PDF. `document`: the report as JSON. `drawings`: the SVG of each figure by its key."""
    template = resources.files("serverdyno.report.views").joinpath("templates", TEMPLATE)
    with (
        resources.as_file(resources.files("serverdyno.report.views").joinpath("fonts")) as fonts,
        tempfile.TemporaryDirectory(prefix="serverdyno-report-") as name,
    ):
        folder = Path(name)
        (folder / TEMPLATE).write_bytes(template.read_bytes())
        (folder / "report.json").write_bytes(document)
        (folder / "shared.json").write_text(_shared(report), encoding="utf-8")
        (folder / "figures").mkdir()
        for key, drawing in drawings.items():
            (folder / "figures" / f"{key}.svg").write_text(drawing, encoding="utf-8")
        made = typst.compile(
            str(folder / TEMPLATE),
            root=str(folder),
            format="pdf",
            font_paths=[str(fonts)],
            ignore_system_fonts=True,
            timestamp=report.source.head.created.replace(microsecond=0),
        )
    assert isinstance(made, bytes)  # a single PDF, since no output file was named
    return made
