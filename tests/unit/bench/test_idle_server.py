"""How requests of an idle server are named and summed up."""

from collections import Counter

import pytest

from bench.scenarios.idle_server import Idle, figures, request_name
from hack.cluster.faults import RequestHead


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (RequestHead("GET", "/version", {}), "GET /version"),
        (RequestHead("GET", "/apis/velero.io/v1/namespaces/velero/backups", {}), "LIST backups"),
        (RequestHead("GET", "/apis/velero.io/v1/namespaces/velero/backups", {"watch": "1"}), "WATCH backups"),
        (RequestHead("GET", "/api/v1/namespaces/velero/secrets/s", {}), "GET secrets"),
        (RequestHead("GET", "/api/v1/namespaces/shop", {}), "GET namespaces"),
        (
            RequestHead("PATCH", "/apis/velero.io/v1/namespaces/velero/backupstoragelocations/d/status", {}),
            "PATCH backupstoragelocations/status",
        ),
    ],
    ids=["no namespace", "list", "watch", "object", "a namespace", "subresource"],
)
def test_names_of_requests(head: RequestHead, name: str) -> None:
    assert request_name(head) == name


def test_everything_is_reported_by_the_minute() -> None:
    requests = Counter({"PUT leases": 60, "GET secrets": 4, "GET store": 4})
    idle = Idle(seconds=120, cpu_seconds=0.3, resident_bytes=70 << 20, requests=requests)

    assert [round(figure.result) for figure in figures(idle)] == [150, 70, 32, 2]
