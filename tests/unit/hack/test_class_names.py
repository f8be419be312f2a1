from pathlib import Path

from hack.checks.class_names import problems


def test_only_public_names_that_are_not_kept_may_stand_in_one_module_alone(tmp_path: Path) -> None:
    source = "class Request: ...\nclass _Private: ...\nclass NotLeading: ...\n"
    for name in ("a.py", "b.py", "c_pb2.py"):
        (tmp_path / name).write_text(source)

    assert problems(tmp_path) == ["class Request stands in a.py, b.py: see docs/adr/110"]
