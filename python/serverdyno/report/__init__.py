"""Build and write the report of an experiment.

`build` computes the model of a report from the records. `write_report` and the other views lay it out as a page, paper,
terminal text, Markdown, JSON, CSV and charts. `compare` compares configurations or experiments.
"""

from serverdyno.report.build import build
from serverdyno.report.comparison import compare
from serverdyno.report.views.files import View, write_report

__all__ = ["View", "build", "compare", "write_report"]
