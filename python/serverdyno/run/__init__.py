"""Carries out an experiment in stages, keeps each level once it is finished, and leaves nothing running."""
