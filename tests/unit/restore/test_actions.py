"""How the engine treats restore actions and the additional items they name."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import orjson
import pytest

from pinnace.api.labels import RESTORE_MUST_INCLUDE
from pinnace.api.nonadmin.restore_limits import TenantLimits
from pinnace.kube.resources import PODS
from pinnace.plugins.builtin.pod_classes import classes_of
from pinnace.plugins.protocols import (
    ResourceIdentifier,
    ResourceSelector,
    RestoreItemInput,
    RestoreItemOutput,
)
from pinnace.restore.selection.validation import NON_RESTORABLE
from tests.unit.restore.world import (
    Harness,
    claim,
    configmap,
    obj,
    pod,
    volume,
)

Behaviour = Callable[[RestoreItemInput], RestoreItemOutput]


class Recorder:
    """An action that remembers what it saw, and answers as it is told."""

    def __init__(self, behaviour: Behaviour | None = None, **selector: Any) -> None:
        self.name = "example.com/recorder"
        self.seen: list[str] = []
        self._behaviour = behaviour or (lambda given: RestoreItemOutput(item=given.item))
        self._selector = ResourceSelector(**selector)

    async def applies_to(self) -> ResourceSelector:
        return self._selector

    async def execute(self, given: RestoreItemInput) -> RestoreItemOutput:
        metadata = given.item["metadata"]
        self.seen.append("/".join(filter(None, (metadata.get("namespace"), metadata["name"]))))
        await asyncio.sleep(0)
        return self._behaviour(given)


def naming(*identifiers: ResourceIdentifier) -> Behaviour:
    return lambda given: RestoreItemOutput(item=given.item, additional_items=identifiers)


def identifier(resource: str, name: str, namespace: str = "") -> ResourceIdentifier:
    return ResourceIdentifier(group="", resource=resource, namespace=namespace, name=name)


@pytest.mark.spec("RST-051")
async def test_an_action_without_selector_sees_everything(harness: Harness) -> None:
    action = Recorder()
    harness.actions = [action]

    await harness.restore(pod("pod-1"), pod("pod-2", "ns-2"), volume("pv-1"), volume("pv-2"))

    assert sorted(action.seen) == ["ns-1/pod-1", "ns-2/pod-2", "pv-1", "pv-2"]


@pytest.mark.spec("RST-052")
async def test_an_action_for_a_namespace_does_not_see_cluster_scoped_items(harness: Harness) -> None:
    action = Recorder(included_namespaces=["ns-1"])
    harness.actions = [action]

    await harness.restore(pod("pod-1"), pod("pod-2", "ns-2"), volume("pv-1"))

    assert action.seen == ["ns-1/pod-1"]


async def test_an_actions_namespaces_are_target_namespaces(harness: Harness) -> None:
    action = Recorder(included_namespaces=["m1"])
    harness.actions = [action]

    await harness.restore(pod("pod-1"), namespace_mapping={"ns-1": "m1"})

    assert action.seen == ["ns-1/pod-1"], "seen before the namespace of the item itself is changed"


async def test_resources_of_an_action_are_resolved(harness: Harness) -> None:
    action = Recorder(included_resources=["po"])
    harness.actions = [action]

    await harness.restore(pod("pod-1"), volume("pv-1"))

    assert action.seen == ["ns-1/pod-1"]


@pytest.mark.spec("RST-053")
async def test_an_action_whose_labels_do_not_match_is_skipped_and_the_item_restored(
    harness: Harness,
) -> None:
    picky, last = Recorder(label_selector="a=b"), Recorder()
    harness.actions = [picky, last]

    await harness.restore(pod("pod-1", labels={"a": "c"}), pod("pod-2", labels={"a": "b"}))

    assert picky.seen == ["ns-1/pod-2"]
    assert sorted(last.seen) == ["ns-1/pod-1", "ns-1/pod-2"]
    assert harness.world.created_of("pods") == ["ns-1/pod-1", "ns-1/pod-2"]


async def test_an_item_and_its_original_are_two_objects(harness: Harness) -> None:
    def check(given: RestoreItemInput) -> RestoreItemOutput:
        assert "status" not in given.item
        assert given.item_from_backup["status"] == {"phase": "Running"}
        assert given.item_from_backup["metadata"]["uid"] == "old"
        changed = orjson.loads(orjson.dumps(given.item))
        changed["metadata"]["labels"] = {"changed": "yes"}
        changed["metadata"]["creationTimestamp"] = None
        changed["status"] = {}
        return RestoreItemOutput(item=changed)

    harness.actions = [Recorder(check)]
    item = pod("pod-1", status={"phase": "Running"})
    item["metadata"]["uid"] = "old"

    results = await harness.restore(item)

    assert results.empty
    sent = harness.world.sent["pods", "ns-1", "pod-1"]
    assert sent["metadata"]["labels"]["changed"] == "yes"
    assert "status" not in sent
    assert "creationTimestamp" not in sent["metadata"]


@pytest.mark.spec("RST-054")
async def test_an_additional_item_is_restored_once_and_before_the_items_that_name_it(
    harness: Harness,
) -> None:
    harness.actions = [
        Recorder(naming(identifier("secrets", "s", "ns-1")), included_resources=["configmaps"])
    ]
    secret = obj("Secret", "s", "ns-1")
    harness.options = _order("configmaps", "secrets")

    results = await harness.restore(configmap("a"), configmap("b"), configmap("c"), secret)

    assert results.empty
    created = [key for key in harness.world.created if key[0] != "namespaces"]
    assert created[0] == ("secrets", "ns-1", "s")
    assert len(created) == 4


def _order(*priorities: str, workers: int = 8) -> Any:
    from pinnace.restore.request import RestoreSettings

    return RestoreSettings(priorities=priorities, workers=workers)


@pytest.mark.spec("RST-055")
@pytest.mark.parametrize(
    "spec", [{"excluded_namespaces": ["ns-2"]}, {"excluded_resources": ["secrets"]}], ids=["ns", "kind"]
)
async def test_an_additional_item_that_is_excluded_is_not_restored(
    harness: Harness, spec: dict[str, Any]
) -> None:
    harness.actions = [
        Recorder(naming(identifier("secrets", "s", "ns-2")), included_resources=["configmaps"])
    ]

    results = await harness.restore(configmap("a"), obj("Secret", "s", "ns-2"), **spec)

    assert results.empty
    assert harness.world.created_of("secrets") == []
    assert harness.world.created_of("configmaps") == ["ns-1/a"]


@pytest.mark.spec("RST-056")
@pytest.mark.parametrize(("include", "restored"), [(None, ["pv-1"]), (False, [])])
async def test_a_cluster_scoped_additional_item_comes_along_unless_excluded(
    harness: Harness, include: bool | None, restored: list[str]
) -> None:
    harness.actions = [Recorder(naming(identifier("persistentvolumes", "pv-1")), included_resources=["pods"])]

    results = await harness.restore(
        pod("p"), volume("pv-1"), included_namespaces=["ns-1"], include_cluster_resources=include
    )

    assert results.empty
    assert harness.world.created_of("persistentvolumes") == restored


@pytest.mark.spec("RST-057")
async def test_an_additional_item_that_is_not_in_the_backup_is_one_warning(harness: Harness) -> None:
    harness.actions = [
        Recorder(naming(identifier("secrets", "gone", "ns-1")), included_resources=["configmaps"])
    ]

    results = await harness.restore(configmap("a"), namespace_mapping={"ns-1": "m1"})

    ((namespace, message),) = results.warnings.notices()
    assert namespace == "ns-1", "the original namespace of the missing item"
    assert "resources/secrets/namespaces/ns-1/gone.json" in message
    assert harness.world.created_of("configmaps") == ["m1/a"]


async def test_a_priority_class_that_is_not_in_the_backup_is_no_warning(harness: Harness) -> None:
    """Backups of Velero and of tenants have none, and a cluster without it refuses the pod."""
    harness.actions = [Recorder(naming(*classes_of({"spec": {"priorityClassName": "urgent"}})))]

    results = await harness.restore(pod("p"))

    assert results.empty
    assert harness.world.created_of("pods") == ["ns-1/p"]


async def test_an_additional_item_that_does_not_decode_is_reported_and_the_item_continues(
    harness: Harness,
) -> None:
    harness.actions = [
        Recorder(naming(identifier("secrets", "bad", "ns-1")), included_resources=["configmaps"])
    ]
    harness.options = _order("configmaps", "secrets")

    results = await harness.restore(
        configmap("a"), files={"resources/secrets/namespaces/ns-1/bad.json": b"{"}
    )

    first, second = results.errors.namespaces["ns-1"]
    assert first.startswith("error restoring additional item secrets/ns-1/bad: ")
    assert second.startswith('error decoding "resources/secrets/')
    assert harness.world.created_of("configmaps") == ["ns-1/a"]


@pytest.mark.spec("RST-058")
async def test_an_item_that_an_action_skips_counts_as_restored(harness: Harness) -> None:
    def skip(given: RestoreItemInput) -> RestoreItemOutput:
        return RestoreItemOutput(
            item=given.item, skip=True, additional_items=[identifier("secrets", "s", "ns-1")]
        )

    after = Recorder()
    harness.actions = [Recorder(skip, included_resources=["pods"]), after]

    results = await harness.restore(pod("p"))

    assert results.empty
    assert after.seen == [], "no later action sees it"
    assert harness.world.created_of("pods") == []
    assert harness.numbers.published[-1] == (2, 2)


@pytest.mark.spec("RST-059")
async def test_an_api_service_is_skipped_only_if_the_server_keeps_it(harness: Harness) -> None:
    def service(name: str, **fields: Any) -> Any:
        return obj("APIService", name, api_version="apiregistration.k8s.io/v1", spec={}, **fields)

    managed = {"kube-aggregator.kubernetes.io/automanaged": "onstart"}
    results = await harness.restore(service("v1.apps", labels=managed), service("v1.custom.io"))

    assert results.empty
    assert harness.world.created_of("apiservices.apiregistration.k8s.io") == ["v1.custom.io"]


async def test_an_action_that_fails_fails_its_item_only(harness: Harness) -> None:
    def fail(given: RestoreItemInput) -> RestoreItemOutput:
        if given.item["metadata"]["name"] == "bad":
            raise RuntimeError("boom")
        return RestoreItemOutput(item=given.item)

    harness.actions = [Recorder(fail)]

    results = await harness.restore(pod("bad"), pod("good"))

    assert results.errors.namespaces == {"ns-1": ["error preparing pods/ns-1/bad: boom"]}
    assert harness.world.created_of("pods") == ["ns-1/good"]


@pytest.mark.parametrize("answer", [{}, {"metadata": None}, {"metadata": "x"}])
async def test_an_action_that_returns_no_object_fails_its_item(harness: Harness, answer: Any) -> None:
    harness.actions = [Recorder(lambda given: RestoreItemOutput(item=answer))]

    results = await harness.restore(pod("p"))

    (message,) = results.errors.namespaces["ns-1"]
    assert message.startswith("error preparing pods/ns-1/p: ")


async def test_an_action_without_a_valid_selector_ends_the_restore(harness: Harness) -> None:
    class Broken(Recorder):
        async def applies_to(self) -> ResourceSelector:
            raise RuntimeError("no answer")

    harness.actions = [Broken()]

    results = await harness.restore(pod("p"))

    assert results.errors.velero == ["error resolving restore item action example.com/recorder: no answer"]
    assert harness.world.created == []


def _edges(pairs: Sequence[tuple[str, str]]) -> Behaviour:
    def behave(given: RestoreItemInput) -> RestoreItemOutput:
        name = given.item["metadata"]["name"]
        wanted = [identifier("configmaps", other, "ns-1") for this, other in pairs if this == name]
        return RestoreItemOutput(item=given.item, additional_items=wanted)

    return behave


@pytest.mark.parametrize(
    "pairs",
    [
        [("a", "a")],
        [("a", "b"), ("b", "a")],
        [("a", "b"), ("b", "c"), ("c", "a")],
        [("a", "b"), ("a", "c"), ("b", "c"), ("c", "b"), ("d", "a"), ("c", "d")],
    ],
    ids=["itself", "pair", "ring", "knot"],
)
async def test_items_that_name_each_other_do_not_block(
    harness: Harness, pairs: list[tuple[str, str]]
) -> None:
    harness.actions = [Recorder(_edges(pairs))]

    async with asyncio.timeout(30):
        results = await harness.restore(*(configmap(name) for name in "abcd"))

    assert results.empty
    assert harness.world.created_of("configmaps") == ["ns-1/a", "ns-1/b", "ns-1/c", "ns-1/d"]


async def test_an_endless_chain_of_additional_items_ends_in_an_error(harness: Harness) -> None:
    pairs = [(f"c{index:03}", f"c{index + 1:03}") for index in range(119)]
    harness.actions = [Recorder(_edges(pairs))]
    harness.options = _order(workers=1)

    results = await harness.restore(*(configmap(f"c{index:03}") for index in range(120)))

    assert results.errors.count > 0
    assert all("nest too deeply" in text for text in results.errors.namespaces["ns-1"])


async def test_two_claims_of_pods_wait_for_the_volume_that_one_of_them_restores(harness: Harness) -> None:
    """The second claim must see that its volume is to be provisioned again."""
    bound: dict[str, Any] = {"spec": {"volumeName": "pv-1"}, "status": {"phase": "Bound"}}
    harness.options = _order("persistentvolumeclaims")

    results = await harness.restore(
        claim("one", **bound), claim("two", **bound), volume("pv-1", policy="Delete")
    )

    assert (results.errors.count, results.warnings.count) == (0, 1)
    assert harness.world.created_of("persistentvolumes") == []
    for name in ("one", "two"):
        assert harness.world.item("persistentvolumeclaims", "ns-1", name)["spec"] == {}


@pytest.mark.found("P15")
async def test_a_kind_that_a_plugin_names_and_that_does_not_exist_is_a_warning(harness: Harness) -> None:
    harness.actions = [Recorder(included_resources=["nosuchthing", "pods"])]

    results = await harness.restore(pod("pod-1"))

    (warning,) = results.warnings.velero
    assert warning.startswith("Plugin example.com/recorder is called for no nosuchthing: ")


def forcing(value: str, *identifiers: ResourceIdentifier, skip: bool = False) -> Behaviour:
    def behaviour(given: RestoreItemInput) -> RestoreItemOutput:
        given.item["metadata"].setdefault("annotations", {})[RESTORE_MUST_INCLUDE] = value
        return RestoreItemOutput(item=given.item, additional_items=identifiers, skip=skip)

    return behaviour


SECRET = identifier("secrets", "s", "ns-2")
FILTERS: dict[str, Any] = {"excluded_resources": ["secrets"], "included_namespaces": ["ns-1"]}


@pytest.mark.spec("AFT-112", "AFT-113")
@pytest.mark.parametrize(("value", "restored"), [("true", ["ns-2/s"]), ("false", []), ("True", [])])
async def test_an_action_may_say_that_filters_do_not_count_for_the_items_that_it_names(
    harness: Harness, value: str, restored: list[str]
) -> None:
    harness.actions = [Recorder(forcing(value, SECRET), included_resources=["pods"])]

    await harness.restore(pod("p"), obj("Secret", "s", "ns-2"), **FILTERS)

    assert harness.world.created_of("secrets") == restored
    created = harness.world.peek(PODS, "p", "ns-1")
    assert created is not None
    assert RESTORE_MUST_INCLUDE not in created["metadata"].get("annotations", {})


@pytest.mark.spec("AFT-114")
async def test_an_action_that_skips_its_item_brings_no_others(harness: Harness) -> None:
    harness.actions = [Recorder(forcing("true", SECRET, skip=True), included_resources=["pods"])]

    await harness.restore(pod("p"), obj("Secret", "s", "ns-2"), **FILTERS)

    assert harness.world.created_of("secrets") == harness.world.created_of("pods") == []


@pytest.mark.spec("AFT-115")
async def test_an_item_brought_along_decides_by_its_own_actions(harness: Harness) -> None:
    config = identifier("configmaps", "c", "ns-2")
    harness.actions = [
        Recorder(forcing("true", SECRET), included_resources=["pods"]),
        Recorder(naming(config), included_resources=["secrets"]),
    ]

    await harness.restore(pod("p"), obj("Secret", "s", "ns-2"), configmap("c", "ns-2"), **FILTERS)

    assert harness.world.created_of("secrets") == ["ns-2/s"]
    assert harness.world.created_of("configmaps") == []


async def test_neither_a_stored_object_nor_an_action_for_a_tenant_gets_around_filters(
    harness: Harness,
) -> None:
    stored: dict[str, Any] = {"annotations": {RESTORE_MUST_INCLUDE: "true"}}
    secret = obj("Secret", "s", "ns-2")
    harness.actions = [Recorder(naming(SECRET), included_resources=["pods"])]
    await harness.restore(pod("p", **stored), secret, **FILTERS)
    assert harness.world.created_of("secrets") == []

    harness.request_fields = {"limits": TenantLimits(creatable=frozenset({("*", "*")}))}
    harness.actions = [Recorder(forcing("true", SECRET), included_resources=["pods"])]
    await harness.restore(pod("q"), secret, **FILTERS)
    assert harness.world.created_of("pods") == ["ns-1/p", "ns-1/q"]
    assert harness.world.created_of("secrets") == []


async def test_what_is_never_restored_is_not_brought_along_either(harness: Harness) -> None:
    node = identifier("nodes", "n")
    harness.actions = [Recorder(forcing("true", node), included_resources=["pods"])]

    await harness.restore(pod("p"), obj("Node", "n"), excluded_resources=list(NON_RESTORABLE))

    assert harness.world.created_of("nodes") == []
