"""How records are shown: one module a resource, from a record to the JSON object of responses and webhook messages."""
