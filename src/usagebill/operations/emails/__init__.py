"""E-mails that go out with invoices and credit notes: by themselves, or when somebody asks for them."""
