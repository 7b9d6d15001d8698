"""Invoices: how they come about, from what a subscription owes for a period to a number and a date."""
