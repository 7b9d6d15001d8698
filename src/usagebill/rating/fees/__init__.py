"""Fees: one module per kind."""
