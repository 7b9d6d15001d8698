"""Fake payment providers: one HTTP server per kind, with the provider's own API."""
