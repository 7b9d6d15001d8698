"""Invoices: their records, totals, states and numbers."""
