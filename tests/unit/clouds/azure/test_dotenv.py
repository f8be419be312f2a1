"""Files of variables."""

from pinnace.clouds.azure.dotenv import parse_variables


def test_files_of_variables() -> None:
    text = "# a comment\nA=1\nexport B = two words # why\nC='kept # here'\n\nnonsense\nD=\nE=a=b\n"

    assert parse_variables(text) == {"A": "1", "B": "two words", "C": "kept # here", "D": "", "E": "a=b"}
