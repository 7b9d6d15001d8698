"""The demo: a year of real flights, billed."""
