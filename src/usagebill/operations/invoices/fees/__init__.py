"""Fees of subscription invoices: one module a kind of fee, each from what is billed to the lines it gives."""
