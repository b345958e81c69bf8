"""Statistics that turn figures into judgements: pure functions on arrays, without files, clocks or records.

For one configuration: `curve` (means and average), `peak` (how high and at which level), `overload` (what is kept
under overload), `dips` (dips, drops and collapses). For several: `improvement` compares two, `comparisons` compares
all of an experiment, `holm` corrects for many claims, `sensitivity` says what could have been found, `ablation`
separates tunings, `scaling` follows processors. Most intervals come from `contrast`; `trust` says which figures need
a mark.
"""
