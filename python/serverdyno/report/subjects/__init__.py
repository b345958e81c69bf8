"""The subjects of a report, one module each, with its figures, tables, charts and sentences.

`applies(results)` returns whether a report has the subject; `build(results)` returns its `Part`. `report/build.py` has
their order.
"""
