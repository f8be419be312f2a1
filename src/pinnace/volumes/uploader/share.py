"""How much of the data of volumes a verification reads: `10%`, `100%` or `1/5`. Pure."""

import re
from typing import Self

import msgspec

_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?) ?%")
_PART = re.compile(r"([0-9]{1,9})/([0-9]{1,9})")


class ReadShare(msgspec.Struct, frozen=True, kw_only=True):
    """A share of data, chosen at random, or one of equal parts that together are all data.

    Attributes:
        percent: of all data, more than 0 and at most 100.
        part: number and count of the parts, as restic has them; None for a random share.
    """

    percent: float
    part: tuple[int, int] | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what a user gave. Raises ValueError."""
        if found := _PERCENT.fullmatch(text.strip()):
            percent = float(found[1])
            if 0 < percent <= 100:
                return cls(percent=percent)
        elif found := _PART.fullmatch(text.strip()):
            number, count = int(found[1]), int(found[2])
            if 1 <= number <= count <= 256:
                return cls(percent=100 / count, part=(number, count))
        raise ValueError(
            f"{text[:40]!r} is not a share of data: give 10%, 100% or, for one of five parts, 1/5"
        )

    def __str__(self) -> str:
        return f"{self.part[0]}/{self.part[1]}" if self.part else f"{self.percent:g}%"
