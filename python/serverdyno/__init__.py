"""Serverdyno: a dynamometer for servers. `ARCHITECTURE.md` is the map."""

__version__ = "0.1.0"
