"""What the site has beside its pages: a reference made from the description of the API, each page as Markdown, an
`llms.txt` that lists these for programs that read, and no links out of docs/.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

from usagebill.http.app import endpoints
from usagebill.http.openapi import document, operation_name
from usagebill.resources import RESOURCES

# The Markdown of each page, by its path below docs/.
_WRITTEN: dict[str, str] = {}


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """Adds the page of every operation with its fields."""
    files.append(File.generated(config, "reference.md", content="\n".join(reference())))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """The page without links to files of the repository that are no pages: no repository is beside a site."""
    steps = page.file.src_uri.count("/") + 1
    outside = re.compile(rf"\[([^\]]*)\]\((?:\.\./){{{steps},}}[A-Za-z][^)\s]*\)")
    shown = outside.sub(r"\1", markdown)
    _WRITTEN[page.file.src_uri] = shown
    return shown


def on_post_build(config: Any, **_: Any) -> None:
    """Writes each page as Markdown beside its HTML, and `llms.txt`."""
    site = Path(config["site_dir"])
    lines = [f"# {config['site_name']}", "", f"> {config['site_description']}", ""]
    for name, text in _WRITTEN.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text, encoding="utf-8")
        title = re.search(r"^# +(.+)$", text, re.MULTILINE)
        lines.append(f"- [{title[1] if title else name}]({name})")
    (site / "llms.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")


def reference() -> Iterator[str]:
    """Every operation: its request, its name in the library, its fields, and an example."""
    described = document(endpoints())
    schemas = described["components"]["schemas"]
    library = {f"{name}.{verb}" for name, kind in RESOURCES.items() for verb in vars(kind)}
    yield "# Every operation\n"
    yield "Each with its fields, and its name in the library. `help(billing.plans.create)` says the same.\n"
    yield "What is answered and sent in webhook messages: [every object](#every-object).\n"
    groups: dict[str, list[Any]] = {}
    for endpoint in endpoints():
        groups.setdefault(endpoint.path.split("/")[1], []).append(endpoint)
    for resource, rows in sorted(groups.items()):
        yield f"## {resource.replace('_', ' ').capitalize()}\n"
        for endpoint in rows:
            operation = described["paths"][f"/api/v1{endpoint.path}"][endpoint.method.lower()]
            yield f"### {endpoint.method} {endpoint.path} {{ data-toc-label='{operation['summary']}' }}\n"
            name = operation_name(endpoint)
            in_library = f" In the library: `billing.{name}`." if name in library else ""
            yield f"{operation['summary']}. {operation['description']}{in_library}\n"
            if endpoint.query is not None:
                parameters = [row for row in operation["parameters"] if row["in"] == "query"]
                yield from table(
                    (row["name"], {**row["schema"], "description": row["description"]}, False) for row in parameters
                )
            if "requestBody" in operation:
                content = operation["requestBody"]["content"]["application/json"]
                schema = content["schema"]
                if endpoint.root is not None:
                    schema = schema["properties"][endpoint.root]
                    yield f"Fields of `{endpoint.root}`:\n"
                yield from table(fields_of(schema, schemas))
                yield f"```json\n{json.dumps(content['example'], indent=2)}\n```\n"
            yield f"Answers with {answered(operation['responses']['200'])}.\n"
    yield "## Webhook messages\n"
    for name, hook in described["webhooks"].items():
        body = hook["post"]["requestBody"]["content"]["application/json"]["schema"]
        yield f"- `{name}`: {hook['post']['summary']}. Under `{list(body['properties'])[-1]}`: {linked(body)}."
    yield "\n## Every object\n"
    for name in sorted(objects(described)):
        yield f"### {name} {{ #object-{name.lower()} }}\n"
        rows = schemas[name]["properties"].items()
        yield from table((field, with_link(shown), False) for field, shown in rows)


def with_link(schema: Any) -> Any:
    """The schema of a field, whose description leads to the object that it holds."""
    if not references(schema):
        return schema
    return {**schema, "description": f"{schema['description']} See {linked(schema)}."}


def objects(described: Any) -> frozenset[str]:
    """The names of the schemas that answers and messages are made of."""
    schemas = described["components"]["schemas"]
    answers = [operation["responses"]["200"] for verbs in described["paths"].values() for operation in verbs.values()]
    waiting = references([*answers, described["webhooks"]])
    met: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in met:
            met.add(name)
            waiting += references(schemas[name])
    return frozenset(met)


def references(part: Any) -> list[str]:
    """The names of the schemas that are referred to, in order."""
    if isinstance(part, list):
        return [name for item in part for name in references(item)]
    if not isinstance(part, dict):
        return []
    named = [part["$ref"].rpartition("/")[2]] if "$ref" in part else []
    return named + [name for item in part.values() for name in references(item)]


def linked(part: Any) -> str:
    """The first object that is referred to, as a link to its fields."""
    names = references(part)
    return f"[{names[0]}](#object-{names[0].lower()})" if names else "an object"


def answered(response: Any) -> str:
    """What an operation answers with."""
    content = response.get("content")
    if content is None:
        return "an empty body"
    schema = next(iter(content.values()))["schema"]
    if "meta" in schema.get("properties", {}):
        return f"a page of {linked(schema)}"
    return linked(schema) if references(schema) else "text"


def fields_of(schema: Any, schemas: Any, above: str = "", depth: int = 0) -> Iterator[tuple[str, Any, bool]]:
    """The fields of a schema and, below each, those of what it holds."""
    real = schemas[schema["$ref"].rsplit("/", 1)[1]] if "$ref" in schema else schema
    for name, field in real.get("properties", {}).items():
        yield f"{above}{name}", field, name in real.get("required", ())
        inner = field.get("items", field)
        if "$ref" in inner and depth < 3:
            yield from fields_of(inner, schemas, f"{above}{name}{'[]' if 'items' in field else ''}.", depth + 1)


def table(rows: Iterator[tuple[str, Any, bool]]) -> Iterator[str]:
    """Fields as a table."""
    yield "| Field | Type | Meaning |\n| --- | --- | --- |"
    for name, schema, required in rows:
        options = schema.get("anyOf", [schema])
        kinds = [
            kind
            for option in options
            for stated in [option.get("type", "object")]
            for kind in ([stated] if isinstance(stated, str) else stated)
        ]
        about = schema.get("description", "")
        if required:
            about = f"**Required.** {about}"
        values = schema.get("enum") or schema.get("items", {}).get("enum") or ()
        if values:
            about += " One of " + ", ".join(f"`{value}`" for value in values if value is not None) + "."
        if "default" in schema:
            about += f" Default: `{json.dumps(schema['default'])}`."
        if schema.get("examples"):
            about += f" Example: `{json.dumps(schema['examples'][0])}`."
        about = about.replace("|", "\\|")
        yield f"| `{name}` | {' or '.join(kind for kind in kinds if kind != 'null')} | {about} |"
    yield ""
