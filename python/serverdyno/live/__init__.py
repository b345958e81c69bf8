"""Local pages: `dyno run --live PORT` shows a run while it goes on, `dyno open` shows finished experiments together.

They listen on loopback alone, accept nothing but GET, and change nothing. Needs the extra `live`. Not for: the report,
which is a file of its own (`report`), and judging, which these pages leave to it.
"""
