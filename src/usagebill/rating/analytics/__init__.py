"""Analytics: totals of invoices and usage by month and currency."""
