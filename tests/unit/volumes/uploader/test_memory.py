"""The memory limit of child processes."""

from pathlib import Path

import pytest

from pinnace.volumes.uploader.memory import container_limit, with_memory_limit

GIB = 1 << 30


@pytest.mark.parametrize(
    ("container", "at_once", "limit"),
    [
        (GIB, 1, "691MiB"),
        (GIB, 2, "345MiB"),
        (GIB, 100, "128MiB"),
        (64 * GIB, 1, "2048MiB"),
        (None, 4, "2048MiB"),
    ],
    ids=["one", "two share", "never less", "never more", "no limit"],
)
def test_children_share_the_limit_of_the_container(container: int | None, at_once: int, limit: str) -> None:
    made = with_memory_limit({"PATH": "/bin"}, at_once=at_once, container_bytes=container)

    assert made == {"PATH": "/bin", "GOMEMLIMIT": limit}


def test_a_limit_of_the_user_stays() -> None:
    made = with_memory_limit({"GOMEMLIMIT": "1GiB"}, at_once=1, container_bytes=GIB)

    assert made == {"GOMEMLIMIT": "1GiB"}


@pytest.mark.parametrize(
    ("first", "second", "limit"),
    [("1048576\n", "7", 1048576), ("max\n", None, None), (None, "4096", 4096), (None, None, None)],
    ids=["second version", "unlimited", "first version", "no files"],
)
def test_the_limit_is_that_of_the_control_group(
    tmp_path: Path, first: str | None, second: str | None, limit: int | None
) -> None:
    files = (tmp_path / "memory.max", tmp_path / "memory.limit_in_bytes")
    for file, content in zip(files, (first, second), strict=True):
        if content is not None:
            file.write_text(content)

    assert container_limit(files) == limit
