"""Times of directories and links, by what kopia prints of a snapshot's directories."""

from pathlib import Path

import orjson
import pytest

from pinnace.volumes.kopia import times as times_module
from pinnace.volumes.kopia.output import parse_root
from pinnace.volumes.kopia.times import Directory, Listings, Times, batches, set_times
from pinnace.volumes.uploader.errors import UnexpectedOutput
from pinnace.volumes.uploader.output import parse_nanoseconds

pytestmark = pytest.mark.found("V07")

NEW_YEAR = "2000-01-01T00:00:00.000000001Z"
NEW_YEAR_NS = 946684800_000000001
CONTENT = "k9b9fd5000bdf14e6d69cb9b3cb97c8a5"
ROOT, DEEP = Directory((), CONTENT), Directory(("deep",), f"{CONTENT}00")


def listing(*entries: tuple[str, str, str]) -> bytes:
    """A directory with entries of a name, type and time."""
    found = [{"name": name, "type": kind, "mtime": time, "obj": CONTENT} for name, kind, time in entries]
    return orjson.dumps({"stream": "kopia:directory", "entries": found, "summary": {}}) + b"\n"


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        (NEW_YEAR, NEW_YEAR_NS),
        ("2000-01-01T00:00:00Z", NEW_YEAR_NS - 1),
        ("1970-01-01T00:00:00.5Z", 500_000_000),
        ("1969-12-31T00:00:00.000000007Z", -86400 * 10**9 + 7),
        ("2099-12-31T23:59:59.999999999Z", 4102444799_999999999),
        ("0001-01-01T00:00:00Z", -62135596800 * 10**9),
        ("2000-01-01T05:30:00.000000001+05:30", NEW_YEAR_NS),
        ("1999-12-31T16:00:00-08:00", NEW_YEAR_NS - 1),
        ("0001-01-01T00:00:00+14:00", -62135596800 * 10**9 - 14 * 3600 * 10**9),
        ("2000-01-01", None),
        ("2000-13-01T00:00:00Z", None),
        ("", None),
    ],
)
def test_times_are_read_to_the_nanosecond(text: str, nanoseconds: int | None) -> None:
    assert parse_nanoseconds(text) == nanoseconds


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_listings_may_be_cut_anywhere(size: int) -> None:
    whole = listing(("deep", "d", NEW_YEAR), ("file", "f", NEW_YEAR), ("link", "s", NEW_YEAR))
    whole += listing(("er", "d", NEW_YEAR), ("whole", "s", "2000-01-01T00:00:00.123456Z"))
    found = Listings()
    found.expect([ROOT, DEEP])

    for start in range(0, len(whole), size):
        found.feed(whole[start : start + size])
    found.end()

    # The other link has a time that kopia sets itself.
    assert found.times == [
        Times((), [("deep", NEW_YEAR_NS), ("link", NEW_YEAR_NS)]),
        Times(("deep",), [("er", NEW_YEAR_NS)]),
    ]
    assert found.below == [Directory(("deep",), CONTENT), Directory(("deep", "er"), CONTENT)]


def test_odd_names_and_lines_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(times_module, "LONGEST_LISTING_BYTES", 2000)
    found = Listings()
    found.expect([Directory((str(number),), CONTENT) for number in range(5)])

    found.feed(listing(*((name, "d", NEW_YEAR) for name in ("..", ".", "", "a/b", "a\0b"))))
    found.feed(b"no listing\n")
    long = listing(*((f"{number}", "d", NEW_YEAR) for number in range(100)))
    for start in range(0, len(long), 100):
        found.feed(long[start : start + 100])
    found.feed(listing(("good", "d", NEW_YEAR)) + b'{"entries":null}\n{"more":"than was asked for"}')
    found.end()

    assert found.times == [Times(("3",), [("good", NEW_YEAR_NS)])]
    assert [each.path for each in found.below] == [("3", "good")]


def test_directories_of_one_content_are_asked_for_together() -> None:
    large = Directory(("large",), f"I{CONTENT}")

    assert list(batches([ROOT, large, DEEP])) == [[ROOT, DEEP], [large]]
    assert list(batches([large])) == [[large]]


def test_links_are_neither_followed_nor_entered(tmp_path: Path) -> None:
    outside, volume = tmp_path / "outside", tmp_path / "volume"
    (outside / "sub").mkdir(parents=True)
    (volume / "deep").mkdir(parents=True)
    (volume / "link").symlink_to(outside)
    before = [outside.stat().st_mtime_ns, (outside / "sub").stat().st_mtime_ns]
    wanted = [
        Times((), [("deep", NEW_YEAR_NS), ("link", NEW_YEAR_NS), ("gone", 1)]),
        Times(("link",), [("sub", 1)]),
        Times(("gone", "deeper"), [("x", 1), ("y", 1)]),
    ]

    assert set_times(volume, wanted) == 4

    assert (volume / "deep").stat().st_mtime_ns == NEW_YEAR_NS
    assert (volume / "link").lstat().st_mtime_ns == NEW_YEAR_NS
    assert [outside.stat().st_mtime_ns, (outside / "sub").stat().st_mtime_ns] == before


def test_the_root_of_a_snapshot_is_found_behind_comments() -> None:
    assert parse_root(b'// id: 1\n// label path:/x\n{\n  "rootEntry": {"obj": "kabc"}\n}\n') == "kabc"
    for odd in (b"", b"// id: 1\n", b'// id\n{"rootEntry": []}', b'//\n{"rootEntry": {"obj": ""}}'):
        with pytest.raises(UnexpectedOutput):
            parse_root(odd)
