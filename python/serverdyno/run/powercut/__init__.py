"""Tests whether flushed data survive power cuts, with the same server and configuration in a guest.

`guests.py` defines what a server needs in a guest, and `boot_files.py` builds the files that the guest boots from.
`machine.py` runs the guest and its disk; `rounds.py` cuts its power and compares the files. Speed is never measured in
a guest.
"""
