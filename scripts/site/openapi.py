"""Render an OpenAPI 3.1 document as one Markdown page: operations by path, then the documents that they exchange."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

HERE = Path(__file__).parent
METHODS = ("get", "put", "post", "delete")


def markdown(document: dict[str, Any]) -> str:
    """Return the page for a document.

    Errors that every operation shares (the same status, description and problem schema) are listed once.
    """
    environment = Environment(
        loader=FileSystemLoader(HERE), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
    )
    environment.filters |= {"type": type_of, "cell": cell, "body": body_of}
    operations = [
        (method.upper(), path, operation, [*resource.get("parameters", []), *operation.get("parameters", [])])
        for path, resource in document["paths"].items()
        for method, operation in resource.items()
        if method in METHODS
    ]
    common = set.intersection(
        *({(s, a["description"]) for s, a in o["responses"].items() if int(s) >= 400} for _, _, o, _ in operations)
    )
    return environment.get_template("openapi.md.j2").render(
        document=document, operations=operations, common=dict(sorted(common)), schemas=document["components"]["schemas"]
    )


def cell(text: str) -> str:
    """Return a text for a cell of a Markdown table."""
    return " ".join(text.replace("|", "\\|").replace("``", "`").split())


def body_of(content: dict[str, Any]) -> str:
    """Return the schema and the media type of a body or an answer; an empty text if there is none."""
    return "; ".join(
        f"{type_of(media['schema'])} (`{kind}`)" if media.get("schema") else f"`{kind}`"
        for kind, media in content.items()
    )


def type_of(schema: dict[str, Any]) -> str:
    """Return a schema in words, with links to the named schemas of the page."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](#{name.lower()})"
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(type_of(one) for one in schema[key]))
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    kind = schema.get("type", "any value")
    if kind == "array":
        return f"list of {type_of(schema['items'])}" if schema.get("items") else "list"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {type_of(schema['additionalProperties'])}"
    bounds = [f"{sign} {schema[key]}" for key, sign in _BOUNDS.items() if key in schema]
    words = schema.get("format", kind) if kind == "string" else kind
    return " ".join([words if isinstance(words, str) else " or ".join(words), *bounds])


_BOUNDS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
