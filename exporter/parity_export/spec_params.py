"""The params of the spec that names a script, for a person who runs the script without `cargo parity`.

The environments of references have no YAML library. This reads only the block `reference` of a spec, in the forms that
specs use, and refuses anything else. `cargo parity` reads specs completely, and passes `params` in `PARITY_REFERENCE`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

SPECS = "parity-specs"

# Key and value of an entry. Anchors, tags and the like begin no key.
_ENTRY = re.compile(r"""\s*("[^"\\]*"|'[^']*'|[^\s:"'{\[&*!|>%@`?-][^:]*):(?:\s+(.*))?$""")


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
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ValueError(f"the spec `{path}` cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"the spec `{path}` is no UTF-8 text") from error
    start = next((number for number, line in enumerate(lines) if re.match(r"reference:(\s|$)", line)), None)
    if start is None:
        # The same key in another form. Without this check, the params would silently be the defaults.
        other = next((line for line in lines if re.match(r"""\s*(\{|\?|["']?reference["']?\s*:)""", line)), None)
        if other is not None:
            raise _refused(path, f"`{other.strip()}`")
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
        raise _refused(path, "it ends early" if isinstance(error, IndexError) else str(error)) from error
    if not isinstance(value, dict) or not isinstance(value.get("params") or {}, dict):
        raise _refused(path, "`reference` or `params` is no mapping")
    return value


def _refused(path: Path, what: str) -> ValueError:
    return ValueError(
        f"the block `reference` of `{path}` cannot be read here ({what}); "
        "run `cargo parity regenerate-fixtures --list` with the name of the spec instead"
    )


def _entry(lines: list[str]) -> tuple[str, Any]:
    """Returns key and value of an entry: the line with the key, and the lines below that belong to it."""
    found = _ENTRY.match(lines[0])
    if found is None:
        raise ValueError(f"`{lines[0].strip()}` is not `key: value`")
    key, rest = found[1].strip("\"'"), (found[2] or "").strip()
    if rest:
        return key, _value([rest, *lines[1:]])
    below = lines[1:]
    if not below:
        return key, None
    depth = _indent(below[0])
    if any(_indent(line) < depth for line in below):
        raise ValueError(f"`{below[0].strip()}` is indented more than a later line")
    if below[0].lstrip()[0] in "{[":
        return key, _value(below)
    if below[0].lstrip().startswith("- "):
        return key, [_item(lines) for lines in _parts(below, depth)]
    return key, _mapping(below, depth)


def _mapping(lines: list[str], depth: int) -> dict[str, Any]:
    return _unique([_entry(part) for part in _parts(lines, depth)])


def _parts(lines: list[str], depth: int) -> list[list[str]]:
    """Returns the lines of each entry or item: a line with this indent, and the deeper lines below."""
    starts = [number for number, line in enumerate(lines) if _indent(line) == depth]
    return [lines[first:last] for first, last in zip(starts, [*starts[1:], len(lines)], strict=True)]


def _item(lines: list[str]) -> Any:
    """Returns an item of a list: a value in one line, or a mapping."""
    first = lines[0].lstrip()
    inner = first.removeprefix("- ").lstrip()
    if not first.startswith("- ") or inner.startswith("- "):
        raise ValueError(f"`{first}` is not `- value`")
    if _ENTRY.match(inner):
        depth = len(lines[0]) - len(inner)
        return _mapping([" " * depth + inner, *lines[1:]], depth)
    return _value([inner, *lines[1:]])


def _value(lines: list[str]) -> Any:
    """Returns a value that may continue in further lines."""
    return _Flow(" ".join(line.strip() for line in lines)).whole()


def _unique(entries: list[tuple[Any, Any]]) -> dict[Any, Any]:
    found = dict(entries)
    if len(found) < len(entries):
        raise ValueError("a key is given twice")
    return found


def _indent(line: str) -> int:
    indent = len(line) - len(line.lstrip())
    if line[:indent].strip(" "):
        raise ValueError(f"`{line.strip()}` is not indented with spaces")
    return indent


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
            return _unique(self.items("}"))
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
                # YAML reads `{a:1}` as a key without a value.
                if not re.match(r":\s", self.text[self.at :]):
                    raise ValueError(f"`{self.text[start : self.at]}` is not followed by `: ` and a value")
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
    # Words and numbers that YAML readers take differently: `True`, `.inf`, `0x1f`, `010`, `1_000`.
    is_number_elsewhere = re.fullmatch(
        r"[-+]?(\.inf|\.nan|0[xob][0-9a-f_]+|0[0-9]+|[0-9]+_[0-9_]*(\..*)?)", text, re.IGNORECASE
    )
    if is_number_elsewhere or text.lower() in words:
        raise ValueError(f"`{text}`, which YAML readers take differently")
    if re.fullmatch(r"[-+]?[0-9]+", text):
        return int(text)
    if re.fullmatch(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", text):
        return float(text)
    return text
