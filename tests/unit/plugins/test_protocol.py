"""The messages and methods against the tables of the specification, and the stubs against their source."""

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf.descriptor import FieldDescriptor

from pinnace.plugins.protocol import methods, velero_pb2
from pinnace.plugins.protocol.methods import Method

CHECKOUT = Path(__file__).parents[3]
SPEC = (CHECKOUT / "docs" / "spec" / "plugins.md").read_text()
TYPES = {
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_INT32: "int32",
    FieldDescriptor.TYPE_INT64: "int64",
}


def rows(heading: str) -> Iterator[list[str]]:
    """The cells of the four-column tables of a section, with empty first cells filled from above."""
    section = SPEC.partition(f"### {heading}")[2].partition("\n### ")[0]
    first = ""
    for line in section.splitlines():
        cells = [cell.strip().replace("`", "") for cell in line.strip().strip("|").split("|")]
        if (
            line.startswith("|")
            and len(cells) >= 4
            and not set(cells[0]) & {"-"}
            and cells[1] not in ("Field", "Method")
        ):
            first = cells[0] or first
            yield [first, *cells[1:]]


def type_of(field: FieldDescriptor) -> str:
    if field.message_type is None:
        name = TYPES[field.type]
    elif field.message_type.GetOptions().map_entry:
        return "map<string, string>"
    else:
        name = field.message_type.name
    return f"repeated {name}" if field.is_repeated else name


def test_the_messages_have_every_field_of_the_specification() -> None:
    wanted = {
        (message, re.sub(r" \(.*\)", "", name), int(number), re.sub(r" \(.*\)", "", kind))
        for message, name, number, kind in rows("6.2 Messages")
        if number.isdigit()
    }
    assert len(wanted) > 60
    ours = {
        (message.name, field.name, field.number, type_of(field))
        for message in velero_pb2.DESCRIPTOR.message_types_by_name.values()
        for field in message.fields
    }
    assert ours == wanted


def test_there_is_every_method_of_the_specification() -> None:
    wanted = {
        (f"/generated.{service}/{name}", request, response, streaming)
        for service, name, request, response, streaming in rows("6.1 Methods")
    }
    assert len(wanted) == 22
    ours = set()
    for service in velero_pb2.DESCRIPTOR.services_by_name.values():
        for method in service.methods:
            streaming = "client" if method.client_streaming else "server" if method.server_streaming else "no"
            path = f"/{service.full_name}/{method.name}"
            ours.add((path, method.input_type.name, method.output_type.name, streaming))
    assert ours == wanted
    ours_in_code = {
        (method.path, method.request.DESCRIPTOR.name, method.response.DESCRIPTOR.name)
        for method in vars(methods).values()
        if isinstance(method, Method) and method.path.startswith("/generated.")
    }
    assert ours_in_code == {one[:3] for one in wanted}


@pytest.mark.skipif(
    importlib.util.find_spec("grpc_tools") is None, reason="grpcio-tools is not installed: stubs not compared"
)
def test_the_stubs_are_what_the_generator_makes(tmp_path: Path) -> None:
    generator = CHECKOUT / "hack" / "tools" / "plugin" / "generate.py"
    script = (
        "import runpy, sys; from pathlib import Path;"
        "runpy.run_path(sys.argv[1])['generate'](Path(sys.argv[2]))"
    )
    subprocess.run([sys.executable, "-c", script, str(generator), str(tmp_path)], check=True, timeout=120)

    protocol = CHECKOUT / "src" / "pinnace" / "plugins" / "protocol"
    made = sorted(tmp_path.rglob("*_pb2.py*"))
    assert len(made) == 8
    for path in made:
        assert path.read_text() == (protocol / path.name).read_text()
