"""The documents are correct: their links resolve and their code runs.

- A `python` block runs in an empty folder, with the names that the document's earlier blocks left.
- The curl commands of an `sh` block are sent to a `Sandbox`, one for each document; each must be answered 2xx.
  `NAME=$(curl ... | jq -r .path)` keeps a part of the response for later commands; other commands are not run.
- A comment `#> text` says what a block prints, line by line; after a curl command, what its response holds.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
API = "/api/v1"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
EXPECTED = re.compile(r"^.*?#> ?(.*)$", re.MULTILINE)


def name_of(document: Path) -> str:
    return str(document.relative_to(ROOT))


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block: its language, its text, and the line of the document on which the text starts."""

    language: str
    text: str
    line: int


def blocks(document: str, language: str) -> list[Block]:
    problems = [
        Block(language=match[1], text=match[2], line=document.count("\n", 0, match.start(2)) + 1)
        for match in BLOCK.finditer(document)
    ]
    return [block for block in problems if block.language == language]


def anchors(document: str) -> set[str]:
    """The names by which a page's headings are linked to, as GitHub makes them."""
    headings = re.findall(r"^#+ +(.*)$", BLOCK.sub("", document), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead_links(document: Path) -> list[str]:
    dead: list[str] = []
    for link in LINK.findall(BLOCK.sub("", document.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = document.parent / path if path else document
        if not target.exists() or (anchor and anchor not in anchors(target.read_text(encoding="utf-8"))):
            dead.append(link)
    return dead


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One curl command: what it sends, and the texts that the response must hold."""

    method: str
    path: str
    body: Any
    expected: list[str]
    kept: tuple[str, str] | None = None


def calls(text: str, names: Mapping[str, str] | None = None) -> Iterator[Call]:
    """The curl commands of a shell script: -X, -H, -d, --json, flags such as -s, and one URL of the API (`$URL`).

    `names` are put where `$NAME` stands, as they are at the moment each command is asked for; a command's own name
    comes with the path of what it keeps.
    """
    script = text.replace("\\\n", " ")
    for match in re.finditer(
        r"^(?:(?P<name>\w+)=\$\()?curl (?P<words>(?:'[^']*'|[^'#|\n])*)(?P<rest>[^\n]*)\n?(?P<comments>(?:#>.*\n?)*)",
        script,
        re.MULTILINE,
    ):
        method, path, body = "", "", None
        known = match["words"]
        for name, value in (names or {}).items():
            known = known.replace(f"${name}", value)
        words = iter(shlex.split(known))
        for word in words:
            if word in {"-X", "--request"}:
                method = next(words)
            elif word in {"-H", "--header"}:
                next(words)
            elif word in {"-d", "--data", "--json"}:
                body = json.loads(next(words))
            elif not word.startswith("-"):
                # `$URL/customers`, or a whole URL.
                path = word[word.index(API) :] if API in word else API + word[word.index("/") :]
        wanted = re.search(r"jq -r (\S+)\)", match["rest"])
        yield Call(
            method=method or ("GET" if body is None else "POST"),
            path=path,
            body=body,
            expected=EXPECTED.findall(match["comments"]),
            kept=(match["name"], wanted[1]) if match["name"] and wanted else None,
        )


def part(body: Any, path: str) -> str:
    """The output of `jq -r PATH` for a path of keys."""
    for key in path.strip(".").split("."):
        body = body[key]
    return str(body)


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_links_lead_somewhere(document: Path) -> None:
    assert dead_links(document) == []


@pytest.mark.parametrize(
    "document", [file for file in DOCUMENTS if blocks(file.read_text(encoding="utf-8"), "python")], ids=name_of
)
def test_python_of_document_runs(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(document.read_text(encoding="utf-8"), "python"):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            # The blank lines before the block make tracebacks name the line of the document.
            exec(compile("\n" * (block.line - 1) + block.text, str(document), "exec"), names)
        expected = EXPECTED.findall(block.text)
        assert not expected or printed.getvalue().splitlines() == expected, f"block at line {block.line}"


@pytest.mark.parametrize(
    "document",
    [
        file
        for file in DOCUMENTS
        if any([*calls(block.text)] for block in blocks(file.read_text(encoding="utf-8"), "sh"))
    ],
    ids=name_of,
)
def test_curl_commands_of_document_are_answered(document: Path) -> None:
    from usagebill.testing import Sandbox

    with Sandbox(now="2024-03-01T00:00:00Z") as box:
        names: dict[str, str] = {}
        for block in blocks(document.read_text(encoding="utf-8"), "sh"):
            for call in calls(block.text, names):
                status, body = box.request(call.method, call.path, json=call.body)
                assert 200 <= status < 300, f"{call}: {body}"
                text = json.dumps(body, default=str)
                assert [wanted for wanted in call.expected if wanted not in text] == [], f"{call}: {body}"
                if call.kept is not None:
                    names[call.kept[0]] = part(body, call.kept[1])


def test_blocks_know_their_language_and_line() -> None:
    document = "# Title\n\n```python\nx = 1\n```\n\n```sh\nls\n```\n"
    assert blocks(document, "python") == [Block(language="python", text="x = 1\n", line=4)]
    assert [block.line for block in blocks(document, "sh")] == [8]


def test_calls_read_what_curl_would_send() -> None:
    script = (
        "usagebill serve &\n"
        'curl -s $URL/api/v1/plans/basic -H "$AUTH" | python3 -m json.tool\n'
        '#> "amount_cents": 1500\n'
        'curl $URL/api/v1/customers -H "Authorization: Bearer $KEY" --json \'{"customer":\n'
        '  {"external_id": "acme | #1"}}\'\n'
        "curl -X DELETE \\\n  $URL/api/v1/customers/acme\n"
    )
    assert list(calls(script)) == [
        Call(method="GET", path="/api/v1/plans/basic", body=None, expected=['"amount_cents": 1500']),
        Call(method="POST", path="/api/v1/customers", body={"customer": {"external_id": "acme | #1"}}, expected=[]),
        Call(method="DELETE", path="/api/v1/customers/acme", body=None, expected=[]),
    ]


def test_calls_know_what_earlier_ones_kept() -> None:
    script = (
        "ID=$(curl -s $URL/api/v1/plans/basic | jq -r .plan.svc_id)\n"
        "curl $URL/api/v1/charges --json '{\"plan_id\": \"'$ID'\"}'\n"
    )
    names: dict[str, str] = {}
    calls_found = calls(script, names)
    first = next(calls_found)
    assert first.kept == ("ID", ".plan.svc_id")
    names["ID"] = part({"plan": {"svc_id": "x1"}}, first.kept[1])
    assert next(calls_found).body == {"plan_id": "x1"}


def test_dead_links_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# One, two\n[a](#one-two) [b](#three) [c](gone.md) [d](page.md#one-two) [e](https://example.com)\n"
    )
    assert dead_links(page) == ["#three", "gone.md"]
