"""Rows on a GPU."""
