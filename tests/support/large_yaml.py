"""Reading YAML of thousands of lines: the library's reader in C takes a tenth of the time for it."""

from typing import Any

import yaml


def read_large_yaml(text: str) -> Any:
    """The content of one YAML document, as `yaml.safe_load` gives it."""
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
