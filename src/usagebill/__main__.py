"""`python -m usagebill` is the command line."""

from __future__ import annotations

from usagebill.cli import main

main(prog_name="python -m usagebill")
