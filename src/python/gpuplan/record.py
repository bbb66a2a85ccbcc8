"""Documents of the program as objects: fields by name, money exact, and the JSON as it was."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator

    import pandas


class Record:
    """One object of a JSON document. A field that the program leaves out is None, which means unknown or not applicable."""

    # Fields that are no plain JSON: the class of a record, `Money`, or either after `*` for the values of a map.
    _kinds: dict[str, str] = {}

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data

    # A type checker knows the fields of each class, and that there are no others.
    if not TYPE_CHECKING:

        def __getattr__(self, name):
            if name.startswith("_"):
                raise AttributeError(name)
            if name not in self._data and name not in type(self).__annotations__:
                raise AttributeError(f"{type(self).__name__} has no `{name}`; it has {', '.join(self._data)}")
            value = self._wrapped(self._data.get(name), self._kinds.get(name))
            self.__dict__[name] = value
            return value

    def _wrapped(self, value: Any, kind: str | None) -> Any:
        if value is None or kind is None:
            return value
        if isinstance(value, list):
            return [self._wrapped(one, kind) for one in value]
        if kind.startswith("*"):
            return {key: self._wrapped(one, kind[1:]) for key, one in value.items()}
        if kind == "Money":
            from decimal import Decimal

            return Decimal(value)
        # A word in place of a record, such as `unknown`.
        return getattr(sys.modules[type(self).__module__], kind)(value) if isinstance(value, dict) else value

    def to_dict(self) -> dict[str, Any]:
        """The JSON as the program printed it."""
        return self._data

    def __getitem__(self, name: str) -> Any:
        return self._data[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __contains__(self, name: object) -> bool:
        return name in self._data

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._data})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self._data == other._data

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[type, tuple[dict[str, Any]]]:
        return type(self), (self._data,)

    def __repr__(self) -> str:
        plain = {key: value for key, value in self._data.items() if isinstance(value, (str, int, float)) and value != ""}
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in list(plain.items())[:6])})"


class Document(Record):
    """A whole answer of the program."""

    # The list that is shown as a table, and whether `gpuplan report` makes a page of the document.
    _rows: str = ""
    _has_page: bool = False

    def to_json(self) -> str:
        import json

        return json.dumps(self._data, ensure_ascii=False)

    def save(self, path: str) -> None:
        """Writes the JSON, for `gpuplan report`, `launch`, `diff`, `budget` and `export`."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.to_json() + "\n")

    def to_pandas(self, rows: str = "") -> pandas.DataFrame:
        """One of the document's lists as a table (by default the one that matters most); fields of records are `a.b`."""
        import pandas

        return pandas.json_normalize(self._data[rows or self._rows])

    def to_html(self) -> str:
        """The page of `gpuplan report`: charts, risks, sources; needs neither scripts nor a network."""
        import os
        import tempfile

        from .program import run

        if not self._has_page:
            raise TypeError(f"`gpuplan report` makes no page of a {type(self).__name__}; to_pandas() gives a table")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "document.json")
            self.save(path)
            return run(["report", path, "--format", "html"])

    def _repr_html_(self) -> str:
        """In a notebook: the page with its charts; of other documents a table."""
        from html import escape

        if self._has_page:
            style = "width:100%;height:40em;border:0;background:white"
            return f'<iframe sandbox srcdoc="{escape(self.to_html())}" style="{style}" title="gpuplan"></iframe>'
        rows = self._data.get(self._rows) or []
        names = [name for name, value in rows[0].items() if not isinstance(value, (dict, list))] if rows else []
        cells = ["".join(f"<td>{escape(str(row.get(name) if row.get(name) is not None else ''))}</td>" for name in names) for row in rows]
        head = "".join(f"<th>{escape(name)}</th>" for name in names)
        return f"<table><tr>{head}</tr>{''.join(f'<tr>{cell}</tr>' for cell in cells)}</table>"
