"""The service while its database is away, full, or silent."""
