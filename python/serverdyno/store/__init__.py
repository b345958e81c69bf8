"""The experiment folder: what was planned, what was measured, and in which format. It computes nothing."""
