"""The subjects of a report, one module each, which builds the subject's tables, charts and sentences.

`applies(results)` returns whether a report has the subject; `build(results)` returns its `Part`. `report/build.py`
defines their order.
"""
