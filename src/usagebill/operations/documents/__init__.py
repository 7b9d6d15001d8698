"""Documents: the files of issued invoices and credit notes, generated at once or on first request."""
