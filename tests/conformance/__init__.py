"""Conformance tests of the reference servers with other projects' programs, to be started by hand."""
