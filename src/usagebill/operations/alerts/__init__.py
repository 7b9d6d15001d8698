"""Alerts: created and changed by requests, checked by jobs."""
