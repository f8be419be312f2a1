"""The floor's file of requests, and the objects in it."""

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from bench.floor.cluster import COLLECTIONS, as_new
from bench.floor.create import read_waves, write_waves
from bench.floor.generate import CreateRequest

REQUESTS = st.builds(
    CreateRequest,
    path=st.from_regex(r"/api/v1/[a-z]{1,8}", fullmatch=True),
    body=st.dictionaries(st.text(max_size=3), st.integers(), max_size=3).map(
        lambda d: repr(d).encode("ascii", "replace")
    ),
)


@given(st.lists(st.lists(REQUESTS, max_size=4), min_size=1, max_size=4))
def test_waves_round_trip(waves: list[list[CreateRequest]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "requests"
        assert write_waves(path, waves) == sum(map(len, waves))
        assert read_waves(path) == waves


def test_an_object_is_created_without_what_the_server_gave_it() -> None:
    stored = {
        "metadata": {
            "name": "a",
            "uid": "1",
            "resourceVersion": "2",
            "managedFields": [],
            "labels": {"x": "y"},
        },
        "spec": {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ports": []},
        "status": {"phase": "x"},
    }
    assert as_new(stored) == {"metadata": {"name": "a", "labels": {"x": "y"}}, "spec": {"ports": []}}


def test_a_headless_service_stays_headless() -> None:
    stored = {"metadata": {"name": "a"}, "spec": {"clusterIP": "None", "clusterIPs": ["None"]}}
    assert as_new(stored) == stored


def test_collections_span_all_namespaces() -> None:
    assert "/api/v1/pods" in COLLECTIONS
    assert not [path for path in COLLECTIONS if "namespaces" in path]
