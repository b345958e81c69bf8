"""Benchmarks of Serverdyno against its peers, the truth, and its own promises: `python -m benches`.

They are neither installed nor tests: a figure here is a measurement, kept with its date under `runs/`.
`tests/project/test_benches.py` runs the same code with tiny parameters.
"""
