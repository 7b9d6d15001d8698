"""The command line: `usagebill COMMAND --help` says what each command does."""

from __future__ import annotations

from usagebill.cli.main import main as main
