"""The page of the routes: made from the OpenAPI schema, without a script, so that it opens offline."""

import html
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

_HEAD = """<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>unmask: routes</title>
<link rel="stylesheet" href="/docs.css"><h1>unmask: routes</h1>
<p>The same as a schema: <a href="/openapi.json">openapi.json</a>.</p>"""
STYLE = """:root { color-scheme: light dark } body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem;
margin: 1.5rem auto; padding: 0 1rem } pre { overflow-x: auto; padding: .6rem; border: 1px solid #8886 }
h2 { margin-top: 2.5rem } h3 { font-family: ui-monospace, monospace; font-size: 1rem; margin-bottom: 0 }"""


def docs_page(schema: Mapping[str, Any], address: str, asked: Mapping[str, str], keyed: bool) -> str:
    """Every route with what it does, an example of asking and one of the answer.

    Examples go to this address, with the key if one is needed, and what they ask of a model stands in the
    place of `{name}` and `{task}`.
    """
    curl = "curl" + keyed * ' -H "authorization: Bearer $UNMASK_API_KEY"'
    groups: dict[str, list[str]] = {}
    for path, methods in schema["paths"].items():
        for method, route in methods.items():
            ask = f"{curl} {address}{_of_model(path, asked) if '/models/' in path else path}"
            groups.setdefault(route["tags"][0], []).append(_route(schema, path, method, route, ask))
    parts = [f"<h2>{html.escape(name)}</h2>{''.join(routes)}" for name, routes in groups.items()]
    return _HEAD + "".join(parts)


def _of_model(path: str, asked: Mapping[str, str]) -> str:
    for place, value in asked.items():
        path = path.replace(place, quote(value))
    return path


def _route(schema: Mapping[str, Any], path: str, method: str, route: Mapping[str, Any], ask: str) -> str:
    if "requestBody" in route:
        reference = route["requestBody"]["content"]["application/json"]["schema"]["$ref"]
        body = json.dumps(_example(schema, reference), ensure_ascii=False)
        ask += f" -H 'content-type: application/json' \\\n  -d '{body}'"
    found = route["responses"]["200"].get("content", {}).get("application/json", {}).get("example")
    shown = "" if found is None else f"<pre>{html.escape(json.dumps(found, ensure_ascii=False))}</pre>"
    about = html.escape(route.get("description", ""))
    return f"<h3>{method.upper()} {html.escape(path)}</h3><p>{about}</p><pre>{html.escape(ask)}</pre>{shown}"


def _example(schema: Mapping[str, Any], reference: str) -> Any:
    """The examples of the required parts of a body."""
    shape = schema["components"]["schemas"][reference.rpartition("/")[2]]
    found = {}
    for name in shape.get("required", ()):
        part = shape["properties"][name]
        inner = [part, *part.get("anyOf", ())]
        if "examples" in part:
            found[name] = part["examples"][0]
        elif target := next((each["$ref"] for each in inner if "$ref" in each), None):
            found[name] = _example(schema, target)
    return found
