"""The quick reader of kubeconfig files reads what PyYAML reads, or leaves it to PyYAML."""

import random
from collections.abc import Callable

import pytest
import yaml

from pinnace.kube.plain_yaml import NotPlain, read_plain

KUBECTL = """\
apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJiVEND+/A==
    server: https://[::1]:6443
  name: kind-one
contexts:
- context:
    cluster: kind-one
    user: kind-one
  name: kind-one
current-context: kind-one
kind: Config
preferences: {}
users:
- name: kind-one
  user:
    client-certificate-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==
    client-key-data: LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQo=
"""
EKS = """\
apiVersion: v1
clusters:
- cluster:
    server: https://ABC.gr7.eu-west-1.eks.amazonaws.com
    insecure-skip-tls-verify: true
  name: arn:aws:eks:eu-west-1:a:cluster/shop
contexts: []
current-context: ""
users:
  - name: 'arn:aws:eks:eu-west-1:a:cluster/shop'
    user:
      exec:
        apiVersion: client.authentication.k8s.io/v1beta1
        args:
        - --region
        - eu-west-1
        - "eks get-token"
        command: aws
        env:

          - name: AWS_PROFILE
            value: shop
        interactiveMode: IfAvailable
        provideClusterInfo: false
      token: null
"""


@pytest.mark.parametrize("text", [KUBECTL, EKS, "", "\n \n", "- a\n- b: c\n  d:\n  - e\n"])
def test_files_of_common_tools_are_read_as_by_pyyaml(text: str) -> None:
    assert read_plain(text.encode()) == yaml.safe_load(text)


@pytest.mark.parametrize(
    "text",
    [
        *("a: 1", "a: 0x1", "a: 2001-01-01", "a: .inf", "a: ~", "a: yes", "a: NO", "on: a", "1: a", "<<: a"),
        *(
            "a: b # c",
            "# c",
            "a: |\n  b",
            "a: &b c",
            "a: *b",
            "a: !!str b",
            "a: [b]",
            "{a: b}",
            "--- a",
            "...",
        ),
        *(
            "a: b\n  c: d",
            "a: b\n  - c",
            "a:\n    b: c\n  d: e",
            "a: b\n c",
            "- a\nb: c",
            "a: b\n- c",
            "-a: b",
        ),
        *('a: "b\\n"', "a: 'it''s'", 'a: "b', "a: é", "a:\tb", "a: b\r\n", "a: b:", "a:  b", "a: b ", "a"),
        "\n".join(" " * depth + "a:" for depth in range(99)),
    ],
)
def test_all_else_is_left_to_pyyaml(text: str) -> None:
    with pytest.raises(NotPlain):
        read_plain(text.encode())


SCALARS = [
    "a",
    "true",
    "no",
    "'x: y'",
    '"x"',
    "a:",
    "a b",
    "--x",
    "---",
    "- a",
    "1",
    "#",
    "/x",
    "|",
    "",
    "a=",
    "{}",
]


def line(choose: Callable[[list[str]], str]) -> str:
    key = choose(["a:", "a:", "b-c:", "on:", "'q':", "?", ""])
    return (
        choose(["", "", "  ", "    "])
        + choose(["", "", "- ", "-"])
        + key
        + choose(["", " "])
        + choose(SCALARS)
    )


def test_what_is_read_is_what_pyyaml_reads() -> None:
    choose, read = random.Random(7).choice, 0
    for _ in range(6000):
        text = "\n".join(line(choose) for _ in range(choose([1, 2, 3, 4])))
        try:
            found = read_plain(text.encode())
        except NotPlain:
            continue
        assert repr(found) == repr(yaml.safe_load(text)), text
        read += 1
    assert read > 200
