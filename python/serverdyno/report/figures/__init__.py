"""Computes figures from records. Nothing here is worded or drawn."""
