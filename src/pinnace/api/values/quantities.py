"""Kubernetes quantities (`500m`, `10Gi`), and requests and limits. (docs/spec: CLI 11.1, CLI-038, PVL 10)"""

import math
import re
from decimal import Decimal

from pinnace.api.values.digits import is_digits

_QUANTITY = re.compile(
    r"([+-]?[0-9]+(?:\.[0-9]*)?|[+-]?\.[0-9]+)(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?[0-9]{1,3})?"
)
_BINARY = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_SUFFIXES = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"),
    "m": Decimal("0.001"), "k": Decimal(10) ** 3, "M": Decimal(10) ** 6, "G": Decimal(10) ** 9,
    "T": Decimal(10) ** 12, "P": Decimal(10) ** 15, "E": Decimal(10) ** 18,
    **{suffix: Decimal(1024) ** power for power, suffix in enumerate(_BINARY, start=1)},
}  # fmt: skip


def parse_quantity(text: str) -> Decimal:
    """The amount that a quantity means. Raises ValueError."""
    match = _QUANTITY.fullmatch(text)
    if not match:
        raise ValueError(
            "quantities must match the regular expression of the Kubernetes API, for example 500m or 128Mi"
        )
    number, suffix = Decimal(match[1]), match[2] or ""
    if suffix[:1] in ("e", "E") and len(suffix) > 1 and is_digits(suffix[1:].lstrip("+-")):
        return number.scaleb(int(suffix[1:]))
    return number * _SUFFIXES.get(suffix, Decimal(1))


def size_quantity(size_bytes: int) -> str:
    """A size with the largest binary suffix that divides it: 53687091200 is `50Gi`, 1000 stays `1000`."""
    suffix = ""
    for larger in _BINARY:
        if size_bytes == 0 or size_bytes % 1024:
            break
        size_bytes, suffix = size_bytes // 1024, larger
    return f"{size_bytes}{suffix}"


def canonical_cpu(text: str) -> str:
    """`1000m` becomes `1`; other amounts are in thousandths, rounded up as the API server does."""
    amount = parse_quantity(text)
    return str(int(amount)) if amount == int(amount) else f"{math.ceil(amount * 1000)}m"


def resource_requirements(
    cpu_request: str, memory_request: str, cpu_limit: str, memory_limit: str
) -> dict[str, dict[str, str]]:
    """Requests and limits of a container; `0` leaves one out. Raises ValueError with the compatible text."""
    result: dict[str, dict[str, str]] = {"requests": {}, "limits": {}}
    for label, key, request, limit in (
        ("CPU", "cpu", cpu_request, cpu_limit),
        ("Memory", "memory", memory_request, memory_limit),
    ):
        amounts = {}
        for kind, text in (("request", request), ("limit", limit)):
            try:
                amounts[kind] = parse_quantity(text)
            except ValueError as error:
                shown = label if label == "CPU" else "memory"
                raise ValueError(f'couldn\'t parse {shown} {kind} "{text}": {error}') from None
            if amounts[kind]:
                result[f"{kind}s"][key] = canonical_cpu(text) if key == "cpu" else text
        if amounts["limit"] and amounts["request"] > amounts["limit"]:
            raise ValueError(
                f'{label} request "{request}" must be less than or equal to {label} limit "{limit}"'
            )
    return result
