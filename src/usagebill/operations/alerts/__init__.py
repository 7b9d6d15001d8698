"""Alerts: made and changed by requests, checked by jobs."""
