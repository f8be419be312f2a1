"""Make the `_pb2` modules of the plugin protocol from its `.proto` files.

    python hack/tools/plugin/generate.py

Needs grpcio-tools. What it makes needs the protobuf of the same version or newer, within two major releases;
after an upgrade of protobuf's major version run it again. A test compares its result with what is committed.
"""

import sys
from pathlib import Path

SOURCE = Path(__file__).parents[3] / "src"
PROTOCOL = SOURCE / "pinnace" / "plugins" / "protocol"
PROTOS = ("velero.proto", "velero_v2.proto", "velero_blocks.proto", "support.proto")

_HEADERS = {
    ".py": "# ruff: noqa\n# fmt: off\n",
    ".pyi": '# ruff: noqa\n# fmt: off\n# mypy: disable-error-code="type-arg, valid-type"\n',
}


def generate(output: Path) -> None:
    """Write modules and their types below `output`, in the folders of their package."""
    from grpc_tools import protoc  # type: ignore[import-untyped]

    for name in PROTOS:
        arguments = [
            "protoc",
            f"-I{SOURCE}",
            f"-I{Path(protoc.__file__).with_name('_proto')}",
            f"--python_out={output}",
            f"--pyi_out={output}",
            str(PROTOCOL / name),
        ]
        if protoc.main(arguments) != 0:
            sys.exit(f"{name} cannot be compiled")
    for suffix, header in _HEADERS.items():
        for made in (output / PROTOCOL.relative_to(SOURCE)).glob(f"*_pb2{suffix}"):
            made.write_text(header + made.read_text())


if __name__ == "__main__":
    generate(SOURCE)
