"""The lists that the floor makes, and the token of the next page."""

import pytest

from bench.floor.list import page_url
from bench.floor.lists import continue_token, list_paths

ALL = ["create", "delete", "get", "list", "watch"]


def resources(group_version: str, *names: str, verbs: list[str] = ALL) -> dict[str, object]:
    return {"groupVersion": group_version, "resources": [{"name": name, "verbs": verbs} for name in names]}


def test_each_resource_that_a_backup_takes_is_listed_once() -> None:
    documents = [
        resources("v1", "pods", "pods/log", "events"),
        resources("v1", "bindings", verbs=["create"]),
        resources("apps/v1", "deployments"),
        resources("autoscaling/v2", "horizontalpodautoscalers"),
        resources("autoscaling/v1", "horizontalpodautoscalers"),
        resources("events.k8s.io/v1", "events"),
    ]
    assert list_paths(documents) == [
        "/api/v1/pods",
        "/api/v1/events",
        "/apis/apps/v1/deployments",
        "/apis/autoscaling/v2/horizontalpodautoscalers",
    ]


DECOY = b'{"metadata":{"name":"x"},"data":{"continue":"no"}}'


@pytest.mark.parametrize(
    ("page", "token"),
    [
        pytest.param(
            b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":"abc",'
            b'"remainingItemCount":3},"items":[' + DECOY + b"]}\n",
            "abc",
            id="built-in",
        ),
        pytest.param(
            b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":['
            + DECOY
            + b"]}",
            "",
            id="built-in-last",
        ),
        pytest.param(
            b'{"apiVersion":"g/v1","items":[' + DECOY + b'],"kind":"WidgetList","metadata":{"continue":"xyz",'
            b'"remainingItemCount":9,"resourceVersion":"7"}}\n',
            "xyz",
            id="custom",
        ),
        pytest.param(
            b'{"apiVersion":"g/v1","items":[' + DECOY * 200 + b'],"kind":"WidgetList",'
            b'"metadata":{"continue":"","resourceVersion":"7"}}\n',
            "",
            id="custom-last",
        ),
        pytest.param(b"", "", id="empty"),
    ],
)
def test_continue_token(page: bytes, token: str) -> None:
    assert continue_token(page) == token


def test_tokens_are_quoted() -> None:
    assert page_url("/api/v1/pods", "") == "/api/v1/pods?limit=500"
    assert page_url("/api/v1/pods", "a+/=") == "/api/v1/pods?limit=500&continue=a%2B%2F%3D"
