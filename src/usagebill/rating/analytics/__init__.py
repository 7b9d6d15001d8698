"""Analytics: what invoices and usage come to, by month and currency."""
