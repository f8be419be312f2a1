"""`-o yaml` means the same to readers of YAML 1.1 (kubectl, PyYAML) and 1.2."""

import json
import re
import shutil
import subprocess
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from pinnace.api.codec import encode as encode_object
from pinnace.api.meta import ObjectMeta
from pinnace.api.velero.backup import Backup, BackupSpec
from pinnace.cli.output.printing import encode

YAML_1_2 = pytest.importorskip(
    "ruamel.yaml", reason="the reader of YAML 1.2 is a development dependency"
).YAML

LABEL_VALUE = r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
AMBIGUOUS = """
    y Y n N yes Yes YES no No NO on On ON off Off OFF true True TRUE false False FALSE null Null NULL ~ = <<
    1e3 12e5 1E5 -1e3 +1 -0 0o14 0O14 014 0x1F 0b101 1_000 1:30 190:20:30 1.5 .5 -.5 5. 1.e3 1,000 +.5e-3
    .inf -.Inf +.INF .nan .NaN .NAN 2001-12-14 2001-12-14t21:59:43.10-05:00 2001-1-1 2001-12-14T21:59:43Z
    12345678901234567890 0xcafe 1234abcd 0. +1:2 1__0 0_7 +0o7 -0x1 09 0b2 8:9.5
    - ? : , [ ] { } # & * ! | > % @ ` --- ... !!str a:
"""
WORDS = AMBIGUOUS.split()
AWKWARD = [
    *(
        "",
        " ",
        " a",
        "a ",
        "a: b",
        "a #b",
        "'",
        '"',
        "\\",
        "\n",
        "a\nb\n",
        "a\r\nb",
        "\t",
        "\u0085",
        "a\u2028b",
    ),
    *("\u2029", "\ufeff", "\x00", "\x1b[31m", "\x7f", "\x9f", "\u00e9", "\U0001f600", "'1e3'", "key:", "%a"),
]
TEXTS = (
    st.sampled_from(WORDS + AWKWARD)
    | st.from_regex(r"[-+]?[0-9.][0-9_.:eExobaf+-]{0,6}", fullmatch=True)
    | st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=12)
)
DOCUMENTS: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def read_1_2(text: str) -> Any:
    return YAML_1_2(typ="safe", pure=True).load(text)


@given(DOCUMENTS)
@example({word: word for word in WORDS})
@example({text: [text, {"a": text}] for text in AWKWARD})
def test_both_versions_of_yaml_read_the_output(document: Any) -> None:
    text = encode(document, "yaml")

    assert yaml.safe_load(text) == document
    assert read_1_2(text) == document


@pytest.mark.parametrize("word", WORDS)
def test_every_ambiguous_word_is_quoted_as_key_and_as_value(word: str) -> None:
    text = encode({word: word}, "yaml").strip()

    assert text == f"'{word}': '{word}'"


@pytest.mark.parametrize("word", ["720h0m0s", "web", "v1", "a.b/c", "2h", "x1e3", "nano", "velero.io/v1"])
def test_ordinary_words_stay_plain(word: str) -> None:
    assert encode({"k": word}, "yaml") == f"k: {word}\n"


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kubectl_reads_labels_as_they_were_given() -> None:
    labels = {f"l{number}": word for number, word in enumerate(WORDS) if re.fullmatch(LABEL_VALUE, word)}
    backup = Backup(metadata=ObjectMeta(name="b1", labels={**labels, "y": "n"}), spec=BackupSpec())
    command = ["kubectl", "label", "--local", "-f", "-", "added=1", "-o", "json"]

    text = encode(encode_object(backup, unsent=True), "yaml")
    done = subprocess.run(command, input=text, text=True, capture_output=True, check=False)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["metadata"]["labels"] == {**labels, "y": "n", "added": "1"}
