"""See the package."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from tests.list_answers import answers, differing, filled, frozen


def main() -> None:
    reader = argparse.ArgumentParser(prog="python -m tests.list_answers")
    reader.add_argument("rows", type=int)
    reader.add_argument("--freeze", action="store_true")
    arguments = reader.parse_args()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        billing, key = filled(Path(directory) / "lists.db", arguments.rows)
        with billing:
            found = dict(answers(billing, key))
    stored = frozen(arguments.rows)
    if arguments.freeze:
        lines = ",\n".join(f"{json.dumps(address)}: {json.dumps(answer)}" for address, answer in found.items())
        stored.write_text(f"{{\n{lines}\n}}\n")
        return
    different = differing(json.loads(stored.read_text()), found)
    for address, (expected, now) in different.items():
        print(f"{address}\n  expected {expected}\n  found    {now}")
    if different:
        raise SystemExit(f"{len(different)} addresses answer otherwise")
    print(f"all {len(found)} addresses answer as they did")


if __name__ == "__main__":
    main()
