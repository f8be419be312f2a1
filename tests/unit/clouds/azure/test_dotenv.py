"""Files of variables."""

import pytest

from pinnace.clouds.azure.dotenv import parse_variables


@pytest.mark.spec("AFT-179")
def test_a_dollar_sign_is_one() -> None:
    assert parse_variables("AZURE_CLIENT_SECRET=pa$word\nB=${A}\n") == {
        "AZURE_CLIENT_SECRET": "pa$word",
        "B": "${A}",
    }


def test_files_of_variables() -> None:
    text = "# a comment\nA=1\nexport B = two words # why\nC='kept # here'\n\nnonsense\nD=\nE=a=b\n"

    assert parse_variables(text) == {"A": "1", "B": "two words", "C": "kept # here", "D": "", "E": "a=b"}
