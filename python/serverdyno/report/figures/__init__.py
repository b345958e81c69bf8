"""Compute figures from records, without wording or drawing them."""
