"""Ensemble in, labels out: one module a method."""
