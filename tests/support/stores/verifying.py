"""What `backup verify` says of a backup."""

import json

import pytest

from pinnace.cli.main import run


def checks(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, tuple[str, str]]]:
    """The exit code, and result and details by check."""
    code = run(["backup", "verify", *words, "-o", "json"])
    out, err = capsys.readouterr()
    assert out, err
    (found,) = json.loads(out)
    return code, {one["check"]: (one["result"], one["details"]) for one in found["checks"]}
