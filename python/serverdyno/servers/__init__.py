"""Servers under test: one driver a file, the table of them in `registry.py`, their contract in `base.py`."""
