"""The HTTP API: the table of endpoints (`table`) and the ASGI app that serves it (`app`)."""
