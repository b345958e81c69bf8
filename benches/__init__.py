"""Benchmarks of Serverdyno against its peers, independent counts, and its own targets: `python -m benches`.

They are neither installed nor tests: their figures are measurements, kept in dated folders under `runs/`.
`tests/project/test_benches.py` runs the same code with tiny parameters.
"""
