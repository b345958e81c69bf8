"""What to measure: the model of a plan, and reading, checking, expanding and ordering it. Starts nothing."""
