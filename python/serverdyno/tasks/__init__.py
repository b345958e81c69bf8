"""Plans of tasks: Bonnie and scenarios on several file servers, repeated and interleaved, each step timed as by `time`.

Not for: load by more and more clients at once, which suites make; nor a single call (`dyno bonnie`, `dyno scenario`).
"""
