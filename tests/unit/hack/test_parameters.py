"""The check that functions take few parameters."""

from pathlib import Path

from hack.checks.parameters import problems

SOURCE = """
class A:
    def six(self, a, b, c, d, e, f): ...
    def seven(self, a, b, c, *, d, e, f, g): ...
    @staticmethod
    def seven_without_self(a, b, c, d, e, f, g): ...
    def outer(self):
        async def inner(a, b, c, d, e, *rest, **flags): ...
"""


def test_functions_over_the_limit_and_exceptions_that_are_not_needed_are_named(tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()
    (tmp_path / "room/a.py").write_text(SOURCE)

    found = problems(tmp_path, {"room.a:A.seven_without_self": "because", "room.a:A.six": "because"})

    assert [line.split(": ")[0] for line in found] == [
        "room.a:A.seven has 7 parameters, more than 6",
        "room.a:A.outer.inner has 7 parameters, more than 6",
        "room.a:A.six is an exception that is not needed",
    ]
