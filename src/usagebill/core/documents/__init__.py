"""Documents: invoices and credit notes for people to read, and as XML for machines (UBL, CII)."""
