"""Rating: what is owed, from what queries look up; it writes nothing."""
