"""Rating computes amounts owed from the records that queries load; it writes nothing."""
