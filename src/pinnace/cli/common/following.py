"""`get --watch`: prints objects, and then each one that changes."""

import asyncio
import os
import stat
import sys
from collections.abc import Callable, Sequence

import click

from pinnace.api.objects import JSONObject
from pinnace.cli.guard import complain
from pinnace.cli.output.layout import echo_laid_out
from pinnace.cli.output.narrow import terminal_columns
from pinnace.cli.output.printing import (
    OutputFlags,
    Table,
    encode,
    in_order,
    print_objects,
    render_table,
    row_of,
)
from pinnace.cli.structs import Struct, replace
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import APIResource
from pinnace.runtime.informer import Informer, Selectors


class Followed(Struct):
    """Which objects are followed.

    Attributes:
        noun: what messages call them.
        names: only those of these names; empty for all.
        selector: only those that this label selector matches; empty for all.
        wanted: whether an object is shown.
    """

    resource: APIResource
    namespace: str
    noun: str
    names: Sequence[str] = ()
    selector: str = ""
    wanted: Callable[[JSONObject], bool] = lambda _obj: True

    def shows(self, obj: JSONObject) -> bool:
        """Whether an object is one of them."""
        return (not self.names or obj["metadata"]["name"] in self.names) and self.wanted(obj)


async def follow(
    client: KubeClient, followed: Followed, table: Callable[[], Table], output: OutputFlags
) -> None:
    """Print the objects and their changes until cancelled. The watch goes on after an outage of the server.

    The caller has listed the objects before, so that a refusal is an error and not tried again.
    """
    fields = f"metadata.name={followed.names[0]}" if len(followed.names) == 1 else ""
    informer = Informer(
        client,
        followed.resource,
        followed.namespace,
        selectors=Selectors(labels=followed.selector, fields=fields),
    )
    printer, pending, changed = _Printer(table, output), list[JSONObject](), asyncio.Event()

    def note(obj: JSONObject) -> None:
        if followed.shows(obj):
            pending.append(
                {"apiVersion": followed.resource.api_version, "kind": followed.resource.kind, **obj}
            )
            changed.set()

    def gone(obj: JSONObject) -> None:
        if followed.shows(obj):
            name = obj["metadata"]["name"]
            printer.forget(name)
            complain(f"{followed.noun} {name} was deleted")

    informer.add_handlers(on_add=note, on_update=lambda _old, new: note(new), on_delete=gone)
    async with asyncio.TaskGroup() as group:
        group.create_task(informer.run())
        group.create_task(end_without_reader())
        while True:
            await changed.wait()
            changed.clear()
            some = pending.copy()
            pending.clear()
            printer.show(some)


async def end_without_reader() -> None:
    """End the watch of a pipe that nobody reads any more: the next line may come in hours.

    Raises:
        BrokenPipeError: its reader has gone.
    """
    try:
        output = sys.stdout.fileno()
    except (OSError, AttributeError):  # a caller took the output away, or put another object in its place
        return
    if not stat.S_ISFIFO(os.fstat(output).st_mode):
        return
    gone, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_reader(output, gone.set)  # nothing can be read from this end: only its error is told
    try:
        await gone.wait()
    finally:
        loop.remove_reader(output)
    raise BrokenPipeError


class _Printer:
    """Prints objects in the form of the flags; in a table, rows that are as they were are left out."""

    def __init__(self, table: Callable[[], Table], output: OutputFlags) -> None:
        self._table = table
        self._output = replace(output, single=True)
        self._objects: dict[str, JSONObject] = {}
        self._rows: dict[str, Sequence[str]] = {}
        self._header = ""
        self._is_first = True

    def forget(self, name: str) -> None:
        """Print the object of that name again when it comes back, whatever its row."""
        self._rows.pop(name, None)
        self._objects.pop(name, None)

    def show(self, objects: Sequence[JSONObject]) -> None:
        """Print objects; the first ones in their order, with the names of the columns."""
        if self._is_first:
            objects = in_order(objects, self._output)
        if self._output.format in ("table", "wide"):
            self._show_rows(objects)
        else:
            for obj in objects:
                self._show_one(obj)
        self._is_first = False

    def _show_rows(self, objects: Sequence[JSONObject]) -> None:
        """Print the rows that have changed, as wide as all others; the header when the columns change."""
        table, new = self._table(), []
        for obj in objects:
            name, row = obj["metadata"]["name"], row_of(obj, table, self._output)
            if self._rows.get(name) != row:
                new.append(obj)
            self._rows[name] = row
            self._objects.pop(name, None)
            self._objects[name] = obj
        if self._is_first and not self._output.sort_by:
            new = table.sort(new)
        names = {obj["metadata"]["name"] for obj in new}
        others = [obj for name, obj in self._objects.items() if name not in names]
        room = terminal_columns() if self._output.format == "table" else None
        text = render_table([*others, *new], table, replace(self._output, no_headers=False), room=room)
        header, *lines = text.splitlines(keepends=True)
        shown = lines[len(lines) - len(new) :]
        if header.split() != self._header.split() and not self._output.no_headers:
            shown.insert(0, header)
        self._header = header
        echo_laid_out("".join(shown), colour=self._output.colour or None)

    def _show_one(self, obj: JSONObject) -> None:
        flags = replace(self._output, no_headers=self._output.no_headers or not self._is_first)
        if flags.format == "yaml":
            click.echo(("" if self._is_first else "---\n") + encode(obj, "yaml"), nl=False)
        else:
            print_objects([obj], self._table(), flags)
            if flags.format == "jsonpath" and not sys.stdout.isatty():
                click.echo()
        self._is_first = False
