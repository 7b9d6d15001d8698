"""Payment providers to test against: one HTTP server a kind, each speaking the provider's own API."""
