"""The report of an experiment: one model, and views of it as page, paper, terminal, Markdown, JSON, CSV and charts.

`build` makes the model from the records, `write_report` the files; `compare` sets configurations against each other.
"""

from serverdyno.report.build import build
from serverdyno.report.comparison import compare
from serverdyno.report.views.files import View, write_report

__all__ = ["View", "build", "compare", "write_report"]
