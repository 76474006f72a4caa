"""The params of the spec that names a script, for a person who runs the script without `cargo parity`.

The environments of references have no YAML library. This reads only the block `reference` of a spec, in the forms that
specs use, and refuses anything else. `cargo parity` reads specs completely, and passes `params` in `PARITY_REFERENCE`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

SPECS = "parity-specs"


def params_of_script(script: Path, spec: Path | None = None) -> tuple[Path, dict[str, Any]] | None:
    """Returns the spec that names the script, and its params; none if no spec does.

    Raises ValueError if two specs have different params for it, or if the spec cannot be read here.
    """
    script = script.resolve()
    root = next((folder for folder in script.parents if (folder / SPECS).is_dir()), None)
    if spec is not None:
        return spec, _reference(spec).get("params") or {}
    if root is None:
        return None
    found: list[tuple[Path, dict[str, Any]]] = []
    for path in sorted((root / SPECS).rglob("*.yaml")):
        if script.name not in path.read_text(encoding="utf-8", errors="replace"):
            continue
        block = _reference(path)
        if (root / str(block.get("script"))).resolve() == script:
            found.append((path, block.get("params") or {}))
    for path, params in found[1:]:
        if params != found[0][1]:
            raise ValueError(
                f"`{found[0][0]}` and `{path}` run this script with different params; name one of them with `--spec`"
            )
    return found[0] if found else None


def _reference(path: Path) -> dict[str, Any]:
    """Returns the block `reference` of a spec."""
    lines = path.read_text(encoding="utf-8").splitlines()
    start = next((number for number, line in enumerate(lines) if re.match(r"reference:(\s|$)", line)), None)
    if start is None:
        return {}
    end = next(
        (number for number in range(start + 1, len(lines)) if re.match(r"[^\s#]", lines[number])),
        len(lines),
    )
    try:
        block = [_uncommented(line) for line in lines[start:end]]
        block = [line for line in block if line.strip()]
        _, value = _entry(block)
    except (ValueError, IndexError) as error:
        raise ValueError(
            f"the block `reference` of `{path}` cannot be read here ({error or 'it ends early'}); "
            "run `cargo parity regenerate-fixtures --list` with the name of the spec instead"
        ) from error
    return value if isinstance(value, dict) else {}


def _entry(lines: list[str]) -> tuple[str, Any]:
    """Returns key and value of an entry: the line with the key, and the lines below that belong to it."""
    found = re.match(r"""\s*("[^"]*"|'[^']*'|[^\s:"'{\[][^:]*):(?:\s+(.*))?$""", lines[0])
    if found is None:
        raise ValueError(f"`{lines[0].strip()}` is not `key: value`")
    key, rest = found[1].strip("\"'"), (found[2] or "").strip()
    if rest:
        parser = _Flow(" ".join([rest, *(line.strip() for line in lines[1:])]))
        return key, parser.whole()
    below = lines[1:]
    if not below:
        return key, None
    if below[0].lstrip().startswith("- "):
        return key, [_Flow(line.strip().removeprefix("- ")).whole() for line in below]
    depth = _indent(below[0])
    starts = [number for number, line in enumerate(below) if _indent(line) == depth]
    if any(_indent(line) < depth for line in below):
        raise ValueError(f"`{below[0].strip()}` is indented more than a later line")
    return key, dict(_entry(below[first:last]) for first, last in zip(starts, [*starts[1:], len(below)], strict=True))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _uncommented(line: str) -> str:
    """Returns the line without its comment. A `#` in quotes, or inside a word, is no comment."""
    quote = ""
    for place, letter in enumerate(line):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter == "#" and (place == 0 or line[place - 1].isspace()):
            return line[:place]
    return line


class _Flow:
    """A value in one line: a scalar, `[…]` or `{…}`."""

    def __init__(self, text: str):
        self.text, self.at = text.strip(), 0

    def whole(self) -> Any:
        value = self.value(stops="" if self.text[:1] not in ("[", "{") else ",]}")
        self.skip()
        if self.at < len(self.text):
            raise ValueError(f"`{self.text[self.at :]}` follows a value")
        return value

    def skip(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def value(self, stops: str) -> Any:
        self.skip()
        first = self.text[self.at]
        if first == "{":
            return dict(self.items("}"))
        if first == "[":
            return [value for value, _ in self.items("]")]
        if first in "\"'":
            end = self.text.index(first, self.at + 1)
            text, self.at = self.text[self.at + 1 : end], end + 1
            if "\\" in text:
                raise ValueError("a backslash in quotes")
            return text
        if first in "&*!|>%@`":
            raise ValueError(f"`{self.text[self.at :]}`")
        end = self.at
        while end < len(self.text) and self.text[end] not in stops and not self.text.startswith(": ", end):
            end += 1
        text, self.at = self.text[self.at : end].strip(), end
        return _scalar(text)

    def items(self, close: str) -> list[tuple[Any, Any]]:
        found: list[tuple[Any, Any]] = []
        self.at += 1
        while True:
            self.skip()
            if self.text[self.at] == close:
                self.at += 1
                return found
            start = self.at
            key = self.value(",]}:" if close == "}" else ",]}")
            self.skip()
            value = None
            if close == "}":
                if self.text[self.at] != ":":
                    raise ValueError(f"`{self.text[start : self.at]}` has no value")
                key = str(key)
                self.at += 1
                value = self.value(",]}")
                self.skip()
            found.append((key, value))
            if self.text[self.at] == ",":
                self.at += 1
            elif self.text[self.at] != close:
                raise ValueError(f"`{self.text[self.at :]}` follows a value")


def _scalar(text: str) -> Any:
    words = {"true": True, "false": False, "null": None, "~": None, "": None}
    if text in words:
        return words[text]
    if re.fullmatch(r"[-+]?[0-9]+", text):
        return int(text)
    if re.fullmatch(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", text):
        return float(text)
    return text
