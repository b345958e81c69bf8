"""Carries an experiment out: stages in order, every mix kept as soon as it is finished, nothing left running."""
