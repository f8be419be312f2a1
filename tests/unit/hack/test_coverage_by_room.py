"""The table of `make coverage`."""

from hack.coverage_by_room import by_room, thin

FILES = [
    ("src/pinnace/api/kinds.py", (10, 9)),
    ("src/pinnace/api/velero/backup.py", (30, 30)),
    ("src/pinnace/_version.py", (0, 0)),
    ("src/pinnace/browse/verifying.py", (20, 5)),
]


def test_rooms_are_sums_of_their_modules_and_the_thinnest_comes_first() -> None:
    assert list(by_room(FILES).items()) == [("browse", (20, 5)), ("api", (40, 39)), ("_version.py", (0, 0))]


def test_the_modules_with_the_most_lines_left_out_are_named() -> None:
    assert thin(FILES, most=2) == [FILES[3], FILES[0]]
