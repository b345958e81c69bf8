"""Benchmarks of Serverdyno against its peers, independent counts, and its own targets: `python -m benches`.

They are not installed, and they are not tests: their figures are measurements, in dated folders under `runs/`.
`tests/project/test_benches.py` runs the same code with tiny parameters.
"""
