"""Local pages: `dyno run --live PORT` shows a run in progress, and `dyno open` shows several experiments.

They listen only on loopback, accept only GET, and change nothing. They need the extra `live`. The pages judge
nothing: verdicts are only in the report (`report`).
"""
