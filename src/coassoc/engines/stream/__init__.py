"""Rows that stay in a file."""
