"""The rule that makes names fit label values, and the catalogue of names."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace.api import labels
from pinnace.api.labels import label_value
from pinnace.api.selection.selectors import Selector


@pytest.mark.spec("API-001")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("short-label-value", "short-label-value"),
        ("", ""),
        (
            "this_is_a_very_long_label_value_that_will_be_rejected_by_Kubernetes",
            "this_is_a_very_long_label_value_that_will_be_rejected_by_8d0722",
        ),
        ("a" * 63, "a" * 63),
        ("a" * 64, "a" * 57 + hashlib.sha256(b"a" * 64).hexdigest()[:6]),
    ],
)
def test_long_names_are_shortened(name: str, value: str) -> None:
    assert label_value(name) == value


@pytest.mark.parametrize("text", ["$(id)", "a,b=c", "a b", "-a", "a.", "\u0663", "a\n", "/" * 90])
def test_what_no_label_value_may_be_gets_a_value_of_its_own(text: str) -> None:
    value = label_value(text)

    assert value.startswith("invalid-")
    assert str(Selector.parse(f"a={value}")) == f"a={value}"
    assert label_value(f"{text}x") != value


@pytest.mark.spec("BKP-006", "CTL-009")
def test_label_of_a_long_location_name() -> None:
    assert label_value("default" * 10) == "defaultdefaultdefaultdefaultdefaultdefaultdefaultdefaultd58343f"


@given(st.text())
def test_always_fits_and_is_stable(name: str) -> None:
    value = label_value(name)
    assert len(value.encode()) <= 63
    assert label_value(value) == value
    assert label_value(name) == value
    assert not value or str(Selector.parse(f"a={value}")) == f"a={value}"


@given(st.text(alphabet="ab", min_size=60, max_size=70), st.text(alphabet="ab", min_size=60, max_size=70))
def test_different_names_keep_apart(one: str, other: str) -> None:
    assert (label_value(one) == label_value(other)) == (one == other)


def test_every_name_is_used_once() -> None:
    names = {key: value for key, value in vars(labels).items() if key.isupper() and "/" in str(value)}
    assert len(set(names.values())) == len(names)
    assert names["SOURCE_CLUSTER_GIT_VERSION"] == "velero.io/source-cluster-k8s-gitversion"
