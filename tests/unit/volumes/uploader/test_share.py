"""How much data a verification reads."""

import pytest

from pinnace.volumes.uploader.share import ReadShare


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10%", ReadShare(percent=10)),
        ("100 %", ReadShare(percent=100)),
        ("2.5%", ReadShare(percent=2.5)),
        ("1/5", ReadShare(percent=20, part=(1, 5))),
    ],
)
def test_shares_are_read(text: str, expected: ReadShare) -> None:
    assert ReadShare.parse(text) == expected
    assert ReadShare.parse(str(expected)) == expected


@pytest.mark.parametrize("text", ["", "0%", "101%", "10", "6/5", "0/5", "1/500", "--all", "5%;", "-1%"])
def test_a_text_that_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a share of data"):
        ReadShare.parse(text)
