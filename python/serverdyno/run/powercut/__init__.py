"""Tests whether flushed data survive power cuts, with the same server and configuration in a guest.

`guests.py` says what a server needs in there, `boot_files.py` makes what the guest boots from, `machine.py` is the
guest and its disk, and `rounds.py` cuts its power and compares. Figures of speed are never taken from a guest.
"""
