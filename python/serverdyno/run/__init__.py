"""Carries an experiment out: stages in order, each mix kept once finished, nothing left running."""
