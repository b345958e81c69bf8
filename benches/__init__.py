"""Serverdyno measured against its peers, against the truth, and against its own promises: `python -m benches`.

Not part of the package that is installed, and not a test: a figure here is a measurement, kept with its date under
`runs/`. `tests/project/test_benches.py` runs the same code with tiny parameters.
"""
