"""`compare-files`, as a dry run starts it."""

import pytest

from pinnace.cli.main import run


@pytest.mark.parametrize("request_text", ["{", "[]", '{"pod": {"name": "p"}}'])
def test_a_request_of_another_version_is_refused(
    capsys: pytest.CaptureFixture[str], request_text: str
) -> None:
    assert run(["compare-files", "--request", request_text]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("An error occurred: --request: ")
