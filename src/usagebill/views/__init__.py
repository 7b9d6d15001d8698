"""Records as the JSON objects of responses and webhook messages: one module per resource."""
