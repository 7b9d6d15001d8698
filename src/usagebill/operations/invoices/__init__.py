"""Invoices: from a computed bill to a stored, numbered and dated invoice."""
