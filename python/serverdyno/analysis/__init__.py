"""From figures to judgements: pure functions on arrays. No files, no clocks, no knowledge of records.

One configuration: `curve` (means, average), `peak` (how high, at which mix), `overload` (what is kept), `dips`
(dips, drops, collapses). Several: `improvement` compares two, `comparisons` all of an experiment, `holm` corrects for
many, `sensitivity` says what could have been found, `ablation` takes tunings apart, `scaling` follows processors.
`contrast` is the interval behind most of them; `trust` says which figures need a mark.
"""
