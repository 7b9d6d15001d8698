"""Invoices: what is kept of one, how its totals come about, its states and its numbers."""
