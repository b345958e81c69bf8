"""Helpers of the tests: servers, experiments, records and reports that several modules need."""
