"""The HTTP API: the table of endpoints and the ASGI app that serves it."""

from usagebill.http.app import create_app as create_app
