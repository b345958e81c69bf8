"""Paths and names for a server's consent to load. See docs/security.md."""

CONSENT_PATH = "/.well-known/serverdyno/"  # of crates/http/src/consent.rs; the user's token follows
CONSENT_VARIABLE = "DYNO_CONSENT_TOKEN"
"""The environment variable that gives our own servers the token of their clients."""
UNLISTED = 0o711
"""Mode of a directory whose file name is a token: other users can't list it."""
