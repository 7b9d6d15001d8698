"""E-mails with invoices, credit notes and receipts, sent automatically or on request."""
