"""Servers under test: one driver per file, their table in `registry.py`, their contract in `base.py`."""
