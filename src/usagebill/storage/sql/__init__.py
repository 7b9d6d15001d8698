"""What SQLite and PostgreSQL share: SQL that both run, with a dialect for what differs."""
