"""Evaluates `-o jsonpath=...` and `-o custom-columns=...`, as kubectl has them. Pure.

A template is text with expressions in braces: paths (`{.items[*].metadata.name}`), texts (`{"\\n"}`), loops
(`{range .items[*]}...{end}`). A path has members (`.a`, `['a.b']`, `.a\\.b`), indexes, slices, `*`, `..name`
and filters (`[?(@.status.phase=="Failed")]`). What is missing is empty, as in `kubectl get`.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pinnace.api.objects import JSONObject

_TOKEN = re.compile(
    r"""\.\.(?P<deep>[\w-]+) | \.\* | \[\*\] | \.(?P<member>(?:[\w/-]|\\.)+)
    | \['(?P<single>[^']*)'\] | \["(?P<double>[^"]*)"\]
    | \[(?P<slice>-?\d*:-?\d*(?::-?\d+)?)\] | \[(?P<index>-?\d+(?:,-?\d+)*)\]
    | \[\?\((?P<filter>[^()]*)\)\]""",
    re.VERBOSE,
)
_FILTER = re.compile(r"\s*@(?P<path>[^\s=!<>]*)\s*(?:(?P<operator>==|!=|<=|>=|<|>)\s*(?P<value>.+?))?\s*")

Step = Callable[[Any], Iterator[Any]]


def compile_path(text: str) -> Sequence[Step]:
    """The steps of a path such as `.metadata.name`. Raises ValueError with the part that cannot be read."""
    path = text.strip().removeprefix("$").removeprefix("@")
    if path == ".":
        return ()
    if path and path[0] not in ".[":
        path = f".{path}"
    steps: list[Step] = []
    position = 0
    while position < len(path):
        found = _TOKEN.match(path, position)
        if found is None:
            raise ValueError(f"cannot read {path[position:]!r} in the path {text!r}")
        steps.append(_step(found))
        position = found.end()
    return steps


def _step(found: re.Match[str]) -> Step:
    if (deep := found["deep"]) is not None:
        return lambda value: _descendants(value, deep)
    for kind in ("member", "single", "double"):
        if (name := found[kind]) is not None:
            key = re.sub(r"\\(.)", r"\1", name) if kind == "member" else name
            return lambda value: iter([value[key]] if isinstance(value, dict) and key in value else [])
    if (cut := found["slice"]) is not None:
        parts = slice(*(int(part) if part else None for part in cut.split(":")))
        if parts.step is not None and parts.step < 1:
            raise ValueError(f"the step of [{cut}] must be at least 1")
        return lambda value: iter(value[parts] if isinstance(value, list) else [])
    if (index := found["index"]) is not None:
        numbers = [int(number) for number in index.split(",")]
        return lambda value: iter(
            [value[n] for n in numbers if isinstance(value, list) and -len(value) <= n < len(value)]
        )
    if (condition := found["filter"]) is not None:
        holds = _condition(condition)
        return lambda value: (each for each in _members(value) if holds(each))
    return _members


def _members(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        return iter(value.values())
    return iter(value if isinstance(value, list) else ())


def _descendants(value: Any, name: str) -> Iterator[Any]:
    pending = [value]
    while pending:
        current = pending.pop(0)
        if isinstance(current, dict) and name in current:
            yield current[name]
        pending += [each for each in _members(current) if isinstance(each, dict | list)]


def _condition(text: str) -> Callable[[Any], bool]:
    found = _FILTER.fullmatch(text)
    if found is None:
        raise ValueError(f'cannot read the filter {text!r}: write it as @.status.phase=="Failed"')
    steps, operator, wanted = compile_path(found["path"] or "."), found["operator"], None
    if operator:
        wanted = _literal(found["value"])

    def holds(value: Any) -> bool:
        return any(operator is None or _compare(operator, each, wanted) for each in resolve(steps, value))

    return holds


def _literal(text: str) -> Any:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    try:
        return json.loads(text)
    except ValueError:
        return text


def _compare(operator: str, one: Any, other: Any) -> bool:
    if operator in ("==", "!="):
        return bool((one == other) == (operator == "=="))
    try:
        return bool({"<": one < other, ">": one > other, "<=": one <= other, ">=": one >= other}[operator])
    except TypeError:
        return False


def resolve(steps: Sequence[Step], value: Any) -> list[Any]:
    """All values that a path leads to."""
    found = [value]
    for step in steps:
        found = [each for one in found for each in step(one)]
    return found


def shown(value: Any) -> str:
    """A value as text: objects and lists as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class _Loop:
    steps: Sequence[Step]
    body: "list[_Part]"


_Part = str | Sequence[Step] | _Loop


def compile_template(text: str) -> Callable[[Any], str]:
    """A function that fills in the template. Raises ValueError."""
    stack: list[tuple[Sequence[Step], list[_Part]]] = [((), [])]
    for piece in re.split(r"(\{(?:[^{}\"']|\"(?:[^\"\\]|\\.)*\"|'[^']*')*\})", text):
        if not (piece.startswith("{") and piece.endswith("}")):
            if "{" in piece or "}" in piece:
                raise ValueError(f"unclosed action: {piece!r} has a brace without its counterpart")
            stack[-1][1].append(piece)
            continue
        inner = piece[1:-1].strip()
        if inner.startswith("range "):
            stack.append((compile_path(inner.removeprefix("range ")), []))
        elif inner == "end":
            if len(stack) == 1:
                raise ValueError("{end} without {range}")
            steps, body = stack.pop()
            stack[-1][1].append(_Loop(steps, body))
        elif inner[:1] in "\"'" and inner:
            stack[-1][1].append(_text(inner))
        else:
            stack[-1][1].append(compile_path(inner))
    if len(stack) > 1:
        raise ValueError("{range} without {end}")
    return lambda value: _fill(stack[0][1], value)


def _text(quoted: str) -> str:
    try:
        return str(json.loads(f'"{quoted[1:-1]}"'))
    except ValueError as error:
        raise ValueError(f"cannot read the text {quoted}") from error


def _fill(parts: Sequence[_Part], value: Any) -> str:
    made = []
    for part in parts:
        if isinstance(part, str):
            made.append(part)
        elif isinstance(part, _Loop):
            made += [_fill(part.body, each) for each in resolve(part.steps, value)]
        else:
            made.append(" ".join(shown(each) for each in resolve(part, value)))
    return "".join(made)


def compile_columns(text: str) -> tuple[tuple[str, Callable[[JSONObject], str]], ...]:
    """The columns of `NAME:.metadata.name,PHASE:.status.phase`. Raises ValueError."""
    columns = []
    for column in re.split(r",(?=[^,\[\]]+:)", text):
        name, colon, path = column.partition(":")
        if not (name and colon and path):
            raise ValueError(f"expected NAME:PATH in the custom columns, got {column!r}")
        columns.append((name, partial(_column_cell, compile_path(path.strip("{}")))))
    return tuple(columns)


def _column_cell(steps: Sequence[Step], obj: JSONObject) -> str:
    return ",".join(shown(each) for each in resolve(steps, obj)) or "<none>"
