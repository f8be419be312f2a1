"""Files of `KEY=value` lines, as Azure's credentials are kept. (docs/spec: STO 14.3)"""

import re

_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_.]*)\s*=\s*(.*?)\s*")


def parse_variables(text: str) -> dict[str, str]:
    """The variables of a file of `KEY=value` lines, with `#` comments and quotes around values."""
    found = {}
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if match is not None:
            found[match[1]] = _unquoted(match[2])
    return found


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1]
    return re.sub(r"\s+#.*", "", value)
