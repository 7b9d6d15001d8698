"""Rating computes what is owed from what queries load; it writes nothing."""
