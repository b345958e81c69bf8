"""The model of a plan: reading, checking, expanding and ordering. Nothing here starts a server or generates load."""
