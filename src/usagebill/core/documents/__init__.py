"""What documents say: invoices and credit notes as people read them, and as machines do (UBL, CII)."""
