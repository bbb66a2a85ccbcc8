"""Writes gpuplan/documents.py from the JSON Schemas of docs/schema: `python3 src/python/generate.py`; `--check` compares only."""

from __future__ import annotations

import json
import keyword
import pathlib
import sys
import textwrap

HERE = pathlib.Path(__file__).parent
SCHEMAS = HERE / "../../docs/schema"
OUTPUT = HERE / "gpuplan/documents.py"
WIDTH = 140

# Schema, class, the list that is its table, whether `gpuplan report` makes a page of it.
DOCUMENTS = [
    ("plan", "Plan", "choices", True),
    ("plan-processing", "ProcessingPlan", "choices", False),
    ("explain", "Explanation", "", False),
    ("estimate", "Estimate", "", False),
    ("prices", "Prices", "offers", False),
    ("budget", "Budget", "lines", True),
    ("status", "Status", "runs", False),
]

HEAD = '''"""Documents of the program, generated from docs/schema by generate.py: do not edit.

Money is a Decimal, exact to the nano-dollar. Times are texts in RFC 3339. None means unknown or not applicable, never zero.
"""

from __future__ import annotations

from .record import Document, Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from decimal import Decimal as Money
    from typing import Any, Literal

'''


class Types:
    """Definitions of all schemas by name; what two schemas define differently gets the document's name in front."""

    def __init__(self) -> None:
        self.definitions: dict[str, dict] = {}

    def add(self, document: str, schema: dict) -> dict:
        definitions = schema.pop("$defs", {})
        renamed = {}
        for name, definition in definitions.items():
            known = self.definitions.get(name)
            taken = {class_name for _, class_name, _, _ in DOCUMENTS}
            if name in taken or (known is not None and plain(known) != plain(definition)):
                renamed[name] = document + name
        for name, definition in definitions.items():
            self.definitions[renamed.get(name, name)] = reference(definition, renamed)
        return reference(schema, renamed)

    def resolve(self, schema: dict) -> dict:
        """Through names that stand for a word, a number or a list."""
        while "$ref" in schema:
            schema = self.definitions[name_of(schema)]
        return schema

    def python(self, schema: object) -> tuple[str, str | None]:
        """The annotation of a value, and its kind for `Record`."""
        if not isinstance(schema, dict) or not schema:
            return "Any", None
        if "$ref" in schema:
            name, target = name_of(schema), self.definitions[name_of(schema)]
            if is_record(target):
                return name, name
            if is_words(target):
                return name, None
            return self.python(target)
        options = [one for one in schema.get("anyOf", schema.get("oneOf", []))]
        if options:
            return self.either(options)
        kinds = schema.get("type")
        if isinstance(kinds, list):
            return self.either([{**schema, "type": kind} for kind in kinds])
        if "const" in schema or "enum" in schema:
            return f"Literal[{', '.join(json.dumps(word) for word in words(schema))}]", None
        if kinds == "array":
            inner, kind = self.python(schema.get("items"))
            return f"list[{inner}]", kind
        if kinds == "object":
            inner, kind = self.python(schema.get("additionalProperties"))
            return f"dict[str, {inner}]", kind and "*" + kind
        if kinds == "string" and "US dollars" in schema.get("description", "") and "pattern" in schema:
            return "Money", "Money"
        return {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}.get(kinds, "Any"), None

    def either(self, options: list[dict]) -> tuple[str, str | None]:
        read = [self.python(one) for one in options]
        names = list(dict.fromkeys(name for name, _ in read))
        kinds = {kind for _, kind in read if kind}
        if len(kinds) > 1:
            # Records of several shapes, told apart by a field: as they are in JSON.
            return "dict[str, Any]" + (" | None" if "None" in names else ""), None
        if "Any" in names:
            return "Any", None
        return " | ".join(sorted(names, key=lambda name: name == "None")), next(iter(kinds), None)


def name_of(schema: dict) -> str:
    return schema["$ref"].rpartition("/")[2]


def is_record(schema: dict) -> bool:
    return schema.get("type") == "object" and "properties" in schema


def is_words(schema: dict) -> bool:
    return bool(words(schema))


def words(schema: dict) -> list[str]:
    """All of a set of words, or nothing."""
    if "const" in schema:
        return [schema["const"]] if isinstance(schema["const"], str) else []
    if "enum" in schema:
        return schema["enum"]
    options = [words(one) for one in schema.get("oneOf", [])]
    return [word for one in options for word in one] if all(options) else []


def plain(schema: object) -> object:
    """Without what is said for people."""
    if isinstance(schema, dict):
        return {key: plain(value) for key, value in schema.items() if key not in ("description", "default")}
    return [plain(one) for one in schema] if isinstance(schema, list) else schema


def reference(schema: object, renamed: dict[str, str]) -> object:
    if isinstance(schema, dict):
        return {
            key: "#/$defs/" + renamed.get(value.rpartition("/")[2], value.rpartition("/")[2]) if key == "$ref" else reference(value, renamed)
            for key, value in schema.items()
        }
    return [reference(one, renamed) for one in schema] if isinstance(schema, list) else schema


def said(text: str, indent: str) -> str:
    text = " ".join(text.replace("\\", "\\\\").replace('"""', "'''").split())
    if not text:
        return ""
    lines = textwrap.wrap(f'"""{text}"""', WIDTH - len(indent))
    return "".join(f"{indent}{line}\n" for line in lines)


def class_of(types: Types, name: str, schema: dict, base: str, extra: list[str]) -> str:
    body, kinds = said(schema.get("description", ""), "    "), {}
    for field, value in schema["properties"].items():
        if not field.isidentifier() or keyword.iskeyword(field):
            continue
        annotation, kind = types.python(value)
        if field not in schema.get("required", []) and "None" not in annotation and annotation != "Any":
            annotation += " | None"
        body += f"    {field}: {annotation}\n"
        described = value.get("description", "") if isinstance(value, dict) else ""
        body += said(described, "    ")
        if kind:
            kinds[field] = kind
    if kinds:
        extra = [*extra, f"_kinds = {json.dumps(kinds)}"]
    body += "".join(f"    {line}\n" for line in extra)
    return f"class {name}({base}):\n{body or '    pass' + chr(10)}"


def generated() -> str:
    types, roots = Types(), []
    for document, name, rows, has_page in DOCUMENTS:
        schema = json.loads((SCHEMAS / f"{document}.json").read_text(encoding="utf-8"))
        extra = [f"_rows = {json.dumps(rows)}"] * bool(rows) + ["_has_page = True"] * has_page
        roots.append((name, types.add(name, schema), extra))
    text = HEAD
    for name, schema in sorted(types.definitions.items()):
        if is_words(schema) and not is_record(schema):
            literal = ", ".join(json.dumps(word) for word in words(schema))
            text += f"    {name} = Literal[{literal}]\n"
    classes = [class_of(types, name, schema, "Record", []) for name, schema in sorted(types.definitions.items()) if is_record(schema)]
    classes += [class_of(types, name, schema, "Document", extra) for name, schema, extra in roots]
    return text + "\n\n" + "\n\n".join(classes)


def main() -> int:
    text = generated()
    if "--check" in sys.argv[1:]:
        if OUTPUT.read_text(encoding="utf-8") != text:
            print(f"{OUTPUT} is not what docs/schema says: run python3 src/python/generate.py", file=sys.stderr)
            return 1
        return 0
    OUTPUT.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
