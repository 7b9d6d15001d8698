"""Hatchling's hook: a wheel gets the stubs of the library, and an editable installation has them beside the sources."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class StubsHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        sys.path[:0] = [str(root), str(root / "src")]
        from scripts.library_stubs import stubs, write_stubs

        if version == "editable":
            write_stubs()
            return
        # The sources may be read-only, and belong to somebody else.
        self._folder = TemporaryDirectory()
        write_stubs(Path(self._folder.name))
        build_data["force_include"].update({str(Path(self._folder.name, name)): name for name in stubs()})

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            self._folder.cleanup()
