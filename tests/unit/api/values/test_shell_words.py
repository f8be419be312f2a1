"""Commands in messages can be pasted, whatever the names in them are."""

import shlex

import pytest

from pinnace.api.values.shell_words import argument, as_name, joined


@pytest.mark.found("K-F12")
@pytest.mark.parametrize("name", ["nightly", "--help", "a b", "$(reboot)", "it's", "-n", ""])
def test_a_name_stays_one_word(name: str) -> None:
    words = shlex.split(f"backup verify {argument(name)}")
    line = shlex.split(joined("pinnace", words, ["-n", "velero"]))
    assert line[:3] == ["pinnace", "backup", "verify"]
    assert line[-1 if name.startswith("-") else 3] == name
    assert line.index("-n") < (line.index("--") if name.startswith("-") else 5)
    assert shlex.split(joined("pinnace", ["backup", "verify", *as_name(name)], ["-n", "velero"])) == line
