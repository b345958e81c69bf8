"""From figures to judgements: pure functions on arrays. No files, no clocks, no knowledge of records.

`curve` summarises one configuration, `improvement` compares two, `trust` says which figures need a mark.
"""
