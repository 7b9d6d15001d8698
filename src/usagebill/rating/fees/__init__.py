"""Fees: one module a kind."""
