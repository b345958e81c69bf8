"""Where a server consents to load, and how one of ours gets the token. See docs/security.md."""

CONSENT_PATH = "/.well-known/serverdyno/"  # of crates/http/src/consent.rs; the user's token follows
CONSENT_VARIABLE = "DYNO_CONSENT_TOKEN"
"""The environment variable by which one of our own servers gets the token of those who may load it."""
UNLISTED = 0o711
"""Mode of a directory with a file that is named by a token: other users can't list it."""
