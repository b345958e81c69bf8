"""Runs an experiment in stages, records each finished level at once, and leaves no process running."""
