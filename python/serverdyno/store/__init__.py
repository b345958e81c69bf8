"""The experiment folder: the plan, the records, and their format. It computes nothing."""
