"""Observations of the machine: what it is (`host.py`) and who else used it (`noise.py`). Nothing here changes
it.
"""
