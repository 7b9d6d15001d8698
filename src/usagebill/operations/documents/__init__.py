"""Documents: the files of issued invoices and credit notes, made at once or when they are first asked for."""
