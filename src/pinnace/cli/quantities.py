"""Kubernetes quantities, as far as resource requests and limits need them. (docs/spec: CLI 11.1, CLI-038)"""

import re
from decimal import Decimal

_QUANTITY = re.compile(r"([+-]?\d+(?:\.\d*)?|[+-]?\.\d+)(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?\d+)?")
_SUFFIXES = {
    "m": Decimal("0.001"), "k": Decimal(10) ** 3, "M": Decimal(10) ** 6, "G": Decimal(10) ** 9,
    "T": Decimal(10) ** 12, "P": Decimal(10) ** 15, "E": Decimal(10) ** 18,
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", start=1)},
}  # fmt: skip


def parse_quantity(text: str) -> Decimal:
    """The amount that a quantity means. Raises ValueError."""
    match = _QUANTITY.fullmatch(text)
    if not match:
        raise ValueError(
            "quantities must match the regular expression of the Kubernetes API, for example 500m or 128Mi"
        )
    number, suffix = Decimal(match[1]), match[2] or ""
    if suffix[:1] in ("e", "E") and len(suffix) > 1 and suffix[1:].lstrip("+-").isdigit():
        return number.scaleb(int(suffix[1:]))
    return number * _SUFFIXES.get(suffix, Decimal(1))


def canonical_cpu(text: str) -> str:
    """`1000m` becomes `1`; other amounts stay in thousandths."""
    amount = parse_quantity(text)
    return str(int(amount)) if amount == int(amount) else f"{int(amount * 1000)}m"


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
            except ValueError as exc:
                shown = label if label == "CPU" else "memory"
                raise ValueError(f'couldn\'t parse {shown} {kind} "{text}": {exc}') from None
            if amounts[kind]:
                result[f"{kind}s"][key] = canonical_cpu(text) if key == "cpu" else text
        if amounts["limit"] and amounts["request"] > amounts["limit"]:
            raise ValueError(
                f'{label} request "{request}" must be less than or equal to {label} limit "{limit}"'
            )
    return result
