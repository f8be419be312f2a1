"""The resource list of a restore, and the details beside it. (docs/spec: BEY 3.5)"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace.api.restore_outcomes import ACTIONS, Outcome
from pinnace.kube.errors import Forbidden
from pinnace.restore.outcomes import ItemOutcomes
from pinnace.restore.selection.reading import ItemKey
from tests.unit.restore.world import Harness, configmap, deployment, obj, pod


@pytest.mark.spec("BEY-011")
def test_the_resource_list_is_veleros() -> None:
    outcomes = ItemOutcomes()
    outcomes.record("apps/v1/Deployment", ItemKey("deployments.apps", "ns1", "web"), Outcome.CREATED)
    outcomes.record("v1/Namespace", ItemKey("namespaces", "", "ns1"), Outcome.SKIPPED)
    outcomes.record("v1/Secret", ItemKey("secrets", "ns1", "s"), Outcome.FAILED, "quota")

    assert outcomes.resource_list() == {
        "apps/v1/Deployment": ["ns1/web(created)"],
        "v1/Namespace": ["ns1(skipped)"],
        "v1/Secret": ["ns1/s(failed)"],
    }


async def test_every_object_of_a_restore_has_an_outcome(harness: Harness) -> None:
    harness.world.put(configmap("same"))
    harness.world.put(configmap("differs", data={"a": "theirs"}))
    harness.world.refuse("create", ("configmaps", "ns-1", "refused"), Forbidden(403, message="over quota"))

    await harness.restore(
        configmap("same"),
        configmap("differs", data={"a": "ours"}),
        configmap("refused"),
        deployment("web"),
        pod("done", status={"phase": "Succeeded"}),
        pod("static", annotations={"kubernetes.io/config.mirror": "x"}),
        obj("DeleteBackupRequest", "d", "ns-1", api_version="velero.io/v1"),
    )

    assert harness.outcomes.resource_list() == {
        "apps/v1/Deployment": ["ns-1/web(created)"],
        "v1/ConfigMap": ["ns-1/differs(failed)", "ns-1/refused(failed)", "ns-1/same(skipped)"],
        "v1/Namespace": ["ns-1(created)"],
        "v1/Pod": ["ns-1/done(skipped)", "ns-1/static(skipped)"],
        "velero.io/v1/DeleteBackupRequest": ["ns-1/d(skipped)"],
    }
    details = harness.outcomes.details()
    assert details["counts"] == {
        "created": 2, "different": 1, "failed": 1, "refused": 1, "skipped": 2, "unchanged": 1,
    }  # fmt: skip
    assert {"outcome": "failed", "reason": "over quota", "objects": {"v1/ConfigMap": ["ns-1/refused"]}} in (
        details["groups"]
    )


async def test_kinds_that_are_not_served_are_listed_as_failed(harness: Harness) -> None:
    item = b'{"apiVersion": "sea.io/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "ns-1"}}'

    await harness.restore(files={"resources/widgets.sea.io/namespaces/ns-1/w.json": item})

    assert harness.outcomes.resource_list() == {"sea.io/v1/Widget": ["ns-1/w(failed)"]}


def test_a_reason_that_many_objects_share_is_kept_once() -> None:
    outcomes = ItemOutcomes()
    for number in range(700):
        outcomes.record("v1/Pod", ItemKey("pods", "ns", f"p{number}"), Outcome.FAILED, "over quota")
    (group,) = outcomes.details()["groups"]
    assert (group["reason"], len(group["objects"]["v1/Pod"])) == ("over quota", 700)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["v1/Pod", "v1/Secret"]),
            st.sampled_from(["", "a", "b"]),
            st.sampled_from(["x", "y"]),
            st.sampled_from(Outcome),
            st.sampled_from(["", "why"]),
        )
    )
)
def test_each_object_is_in_the_list_once_and_only_being_left_out_is_not_final(
    events: list[tuple[str, str, str, Outcome, str]],
) -> None:
    outcomes = ItemOutcomes()
    wanted: dict[tuple[str, str, str], Outcome] = {}
    for kind, namespace, name, outcome, reason in events:
        outcomes.record(kind, ItemKey("", namespace, name), outcome, reason)
        if wanted.get((kind, namespace, name), Outcome.SKIPPED) in (Outcome.SKIPPED, Outcome.REFUSED):
            wanted[(kind, namespace, name)] = outcome

    listed = {(kind, entry) for kind, entries in outcomes.resource_list().items() for entry in entries}
    titles = {
        (kind, f"{namespace}/{name}({ACTIONS[outcome]})" if namespace else f"{name}({ACTIONS[outcome]})")
        for (kind, namespace, name), outcome in wanted.items()
    }
    assert listed == titles
    assert sum(outcomes.counts.values()) == len(wanted)
