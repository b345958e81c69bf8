"""Whether flushed data outlive a power cut: the server and its configuration in a guest that loses power, again and
again.

`guests.py` says what a server needs in there, `boot_files.py` makes what the guest boots from, `machine.py` is the
guest and its disk, `rounds.py` cuts its power and compares. Figures of speed are never taken from a guest.
"""
