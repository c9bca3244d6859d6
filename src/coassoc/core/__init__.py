"""Shapes, counts, score tables, moves and checks: NumPy only, no input or output."""
