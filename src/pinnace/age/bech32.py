"""Bech32 texts of keys (BIP 173), without its limit of 90 characters, as age writes them."""

from typing import Final

_ALPHABET: Final = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_GENERATOR: Final = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)
_CHECKSUM_DIGITS: Final = 6


def encode(prefix: str, data: bytes) -> str:
    """The lower-case text of the data behind a prefix."""
    digits = _regroup(data, 8, 5, pad=True)
    check = _polymod(_expanded(prefix) + digits + [0] * _CHECKSUM_DIGITS) ^ 1
    digits += [check >> 5 * (_CHECKSUM_DIGITS - 1 - place) & 31 for place in range(_CHECKSUM_DIGITS)]
    return prefix + "1" + "".join(_ALPHABET[digit] for digit in digits)


def decode(text: str) -> tuple[str, bytes]:
    """The prefix, in lower case, and the data. Raises ValueError; its text does not repeat the input."""
    if text not in (text.lower(), text.upper()):
        raise ValueError("upper and lower case are mixed")
    prefix, one, rest = text.lower().rpartition("1")
    if not one or not prefix or len(rest) < _CHECKSUM_DIGITS or not set(rest) <= set(_ALPHABET):
        raise ValueError("it is cut off or has characters that do not belong there")
    digits = [_ALPHABET.index(character) for character in rest]
    if _polymod(_expanded(prefix) + digits) != 1:
        raise ValueError("its checksum is wrong: it is mistyped or cut off")
    return prefix, bytes(_regroup(bytes(digits[:-_CHECKSUM_DIGITS]), 5, 8, pad=False))


def _expanded(prefix: str) -> list[int]:
    codes = prefix.encode()
    return [code >> 5 for code in codes] + [0] + [code & 31 for code in codes]


def _polymod(digits: list[int]) -> int:
    check = 1
    for digit in digits:
        top = check >> 25
        check = (check & 0x1FFFFFF) << 5 ^ digit
        for place, value in enumerate(_GENERATOR):
            check ^= value if top >> place & 1 else 0
    return check


def _regroup(data: bytes, width: int, new_width: int, *, pad: bool) -> list[int]:
    held, bits, digits = 0, 0, []
    for value in data:
        held, bits = held << width | value, bits + width
        while bits >= new_width:
            bits -= new_width
            digits.append(held >> bits & (1 << new_width) - 1)
    left = held & (1 << bits) - 1
    if pad and bits:
        digits.append(left << new_width - bits)
    elif not pad and (bits >= width or left):
        raise ValueError("its padding is wrong")
    return digits
