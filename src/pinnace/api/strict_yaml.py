"""Reads YAML strictly: every scalar is a text, and a key that is there twice is an error. Pure.

A text keeps what was written: `tier: 1` is the label value "1", and `0,5` is no number in any notation. The
schema of what is read is checked by its reader. (docs/spec: BEY 4.7, 5.3)
"""

from collections.abc import Mapping
from typing import Any, Final

_MAX_NODES: Final = 50_000
"""Aliases can repeat a part of a document very often; one written by a person has far fewer parts."""


def read_yaml(text: str) -> Any:
    """The content of one YAML document: dicts, lists, texts, and None for null.

    Raises:
        ValueError: it is no YAML, has a key twice, or is too large.
    """
    import yaml  # costs more than the rest of most commands

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        return None if root is None else _Walk().value(root)
    except yaml.YAMLError as error:
        raise ValueError(f"it is not valid YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def only_document(config_map: Mapping[str, Any]) -> str:
    """The value of a ConfigMap that must have exactly one, under any key.

    Raises:
        ValueError: it has none, or several.
    """
    data = config_map.get("data") or {}
    keys = sorted([*data, *(config_map.get("binaryData") or {})])
    if len(keys) != 1 or not data:
        raise ValueError(
            f"it must have exactly one key with the document, and has {', '.join(keys) or 'none'}"
        )
    return str(data[keys[0]])


class _Walk:
    def __init__(self) -> None:
        self._left = _MAX_NODES

    def value(self, node: Any) -> Any:
        import yaml

        self._left -= 1
        if self._left < 0:
            raise ValueError(f"it has more than {_MAX_NODES} parts")
        if isinstance(node, yaml.SequenceNode):
            return [self.value(member) for member in node.value]
        if isinstance(node, yaml.MappingNode):
            found: dict[str, Any] = {}
            for key_node, value_node in node.value:
                key = self.value(key_node)
                if not isinstance(key, str):
                    raise ValueError(f"line {key_node.start_mark.line + 1}: a key must be a text")
                if key in found:
                    raise ValueError(f"line {key_node.start_mark.line + 1}: the key {key!r} is there twice")
                found[key] = self.value(value_node)
            return found
        return None if node.tag == "tag:yaml.org,2002:null" else node.value
