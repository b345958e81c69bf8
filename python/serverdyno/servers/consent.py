"""Paths and names for a server's consent to load. See docs/security.md."""

CONSENT_PATH = "/.well-known/serverdyno/"  # as in crates/http/src/consent.rs; the user's token follows
CONSENT_VARIABLE = "DYNO_CONSENT_TOKEN"
"""The environment variable with the consent token of the reference servers."""
UNLISTED = 0o711
"""Mode of a directory whose file names are tokens, so that other users can't list it."""
