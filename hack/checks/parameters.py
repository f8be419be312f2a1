"""Checks that no function takes more than six parameters beyond self: related values belong in one object.

Run as `python -m hack.checks.parameters`; prints functions over the limit, and exceptions that are no longer
needed. A function inside a function counts too; `*args` and `**flags` count as one each.
"""

import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

LIMIT: Final = 6
SOURCE: Final = Path("src")

EXCEPTIONS: Final[Mapping[str, str]] = {
    "pinnace.hooks.limit:LimitedExecutor.exec": "implements Executor.exec",
    "pinnace.kube.requesting:RequestClient.__init__": "settings, each by name; three are for tests",
    "pinnace.kube.requesting:RequestClient.request": "the parts of one HTTP request, each by name",
    "pinnace.kube.listing_requests:ListClient.list_pages": "the query of a list, each by name",
    "pinnace.kube.client:KubeClient.watch": "the query of a watch, each by name",
    "pinnace.kube.client:KubeClient.exec": "implements Executor.exec",
    "pinnace.hooks.commands:Executor.exec": "a command and where it runs",
}
"""Functions that may have more parameters, as `module:Class.function`, each with the reason."""


def excess(module: str, tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The functions of a module with too many parameters: name and number."""
    yield from _excess_below(tree, f"{module}:", in_class=False)


def _excess_below(node: ast.AST, prefix: str, *, in_class: bool) -> Iterator[tuple[str, int]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield from _excess_below(child, f"{prefix}{child.name}.", in_class=True)
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            name = f"{prefix}{child.name}"
            count = _parameters(child, is_method=in_class)
            if count > LIMIT:
                yield name, count
            yield from _excess_below(child, f"{name}.", in_class=False)
        else:
            yield from _excess_below(child, prefix, in_class=in_class)


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef, *, is_method: bool) -> int:
    given = function.args
    count = len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs)
    count += sum(each is not None for each in (given.vararg, given.kwarg))
    static = any(isinstance(each, ast.Name) and each.id == "staticmethod" for each in function.decorator_list)
    return count - (is_method and not static)


def problems(source: Path, exceptions: Mapping[str, str]) -> list[str]:
    """The problems in the modules below `source`, one line each."""
    found: dict[str, int] = {}
    for path in sorted(source.rglob("*.py")):
        module = ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")
        found.update(excess(module, ast.parse(path.read_bytes())))
    return [
        *(
            f"{name} has {count} parameters, more than {LIMIT}: hand on what belongs together as one"
            for name, count in found.items()
            if name not in exceptions
        ),
        *(f"{name} is an exception that is not needed: remove it" for name in exceptions.keys() - found),
    ]


def main() -> int:
    """Print the problems; 1 if there are any."""
    found = problems(SOURCE, EXCEPTIONS)
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
