"""Statistics that turn figures into judgements: pure functions on arrays, without files, clocks or records.

For one configuration: `curve` (means and average), `peak` (height and load level), `overload` (the share of the peak
kept under overload), `dips` (dips, drops and collapses). For several configurations: `improvement` compares two, and
`comparisons` compares all of an experiment. `holm` corrects for many claims, and `sensitivity` computes the smallest
detectable difference. `ablation` separates the effects of tunings, and `scaling` fits throughput over processors. Most
intervals come from `contrast`; `trust` decides which figures need a mark.
"""
