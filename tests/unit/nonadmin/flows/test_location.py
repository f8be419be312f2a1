"""A tenant's storage location, with and without approval. (docs/spec: NAC 12)"""

import contextlib
from collections.abc import Callable

import pytest

from pinnace.api.nonadmin.names import ALLOWED_ENDPOINTS_ANNOTATION
from pinnace.api.objects import JSONObject
from pinnace.kube.errors import Invalid
from pinnace.kube.resources import SECRETS
from pinnace.nonadmin.objects import NON_ADMIN_BACKUPS, NON_ADMIN_LOCATION_REQUESTS, NON_ADMIN_LOCATIONS
from pinnace.nonadmin.settings.admin import AdminSettings
from tests.support.cluster.scripted_cluster import ScriptedCluster
from tests.unit.nonadmin.memory import LOCATIONS, SERVER, Service, conditions, message, on_writes

KEYS = "W2RlZmF1bHRdCmF3c19hY2Nlc3Nfa2V5X2lkPWEKYXdzX3NlY3JldF9hY2Nlc3Nfa2V5PWIK"
SPEC = {
    "provider": "aws",
    "objectStorage": {"bucket": "mine"},
    "credential": {"name": "keys", "key": "cloud"},
}


def service(*, approval: bool = False) -> Service:
    return Service(ScriptedCluster(), AdminSettings(require_approval=approval))


def non_admin_location(service: Service) -> JSONObject:
    found = service.cluster.peek(NON_ADMIN_LOCATIONS, "mine", "shop")
    assert found is not None
    return found


def request(service: Service) -> JSONObject:
    (found,) = service.cluster.of(NON_ADMIN_LOCATION_REQUESTS)
    return found


async def asked(service: Service) -> None:
    service.cluster.add(SECRETS, "keys", "shop", type="Opaque", data={"cloud": KEYS})
    service.cluster.add(NON_ADMIN_LOCATIONS, "mine", "shop", spec={"backupStorageLocationSpec": SPEC})
    await service.settle()


async def decide(service: Service, decision: str) -> None:
    name = request(service)["metadata"]["name"]
    service.cluster.change(NON_ADMIN_LOCATION_REQUESTS, name, SERVER, spec={"approvalDecision": decision})
    await service.settle()


def copies(service: Service) -> tuple[int, int]:
    return (
        len([each for each in service.cluster.of(SECRETS) if each["metadata"]["namespace"] == SERVER]),
        len(service.cluster.of(LOCATIONS)),
    )


@pytest.mark.spec("NAC-038")
async def test_without_required_approval_a_location_is_created_at_once() -> None:
    one = service()
    await asked(one)
    assert [kind for kind, _, _ in conditions(non_admin_location(one))] == [
        "Accepted",
        "ClusterAdminApproved",
        "SecretSynced",
        "BackupStorageLocationSynced",
    ]
    assert non_admin_location(one)["status"]["phase"] == "Created"
    unique_id = non_admin_location(one)["status"]["veleroBackupStorageLocation"]["nacuuid"]
    assert request(one)["spec"]["approvalDecision"] == "approve"
    assert request(one)["status"] == {
        "phase": "Approved",
        "nonAdminBackupStorageLocation": {
            "requestedSpec": SPEC,
            "nacuuid": unique_id,
            "name": "mine",
            "namespace": "shop",
        },
    }
    (location,) = one.cluster.of(LOCATIONS)
    assert location["metadata"]["name"] == unique_id
    assert location["spec"] == {
        "provider": "aws",
        "objectStorage": {"bucket": "mine", "prefix": "shop"},
        "credential": {"name": unique_id, "key": "cloud"},
    }
    copy = one.cluster.peek(SECRETS, unique_id, SERVER)
    assert copy is not None
    assert (copy["type"], copy["data"]) == ("Opaque", {"cloud": KEYS})
    before = one.cluster.effects()
    for _ in range(10):
        await one.look(NON_ADMIN_LOCATIONS, "shop", "mine")
        assert non_admin_location(one)["status"]["phase"] == "Created"
    assert one.cluster.effects() == before


@pytest.mark.spec("NAC-039")
async def test_with_required_approval_a_location_waits_for_the_decision() -> None:
    one = service(approval=True)
    await asked(one)
    assert copies(one) == (0, 0)
    assert non_admin_location(one)["status"]["phase"] == "New"
    assert conditions(non_admin_location(one))[1] == (
        "ClusterAdminApproved",
        "False",
        "BslSpecApprovalPending",
    )
    await decide(one, "approve")
    assert copies(one) == (1, 1)
    assert non_admin_location(one)["status"]["phase"] == "Created"
    for decision, phase, reason in (
        ("reject", "BackingOff", "BslSpecRejected"),
        ("approve", "Created", "BslSpecApproved"),
        ("pending", "New", "BslSpecApprovalPending"),
        ("perhaps", "BackingOff", "BslSpecInvalid"),
    ):
        await decide(one, decision)
        assert non_admin_location(one)["status"]["phase"] == phase
        assert conditions(non_admin_location(one))[1][2] == reason
        assert copies(one) == ((1, 1) if decision == "approve" else (0, 0))


def edit(service: Service) -> None:
    edited = {**SPEC, "objectStorage": {"bucket": "other"}}
    service.cluster.change(NON_ADMIN_LOCATIONS, "mine", "shop", spec={"backupStorageLocationSpec": edited})


def remove_keys(service: Service) -> None:
    service.cluster.remove(SECRETS, "keys", "shop")


def spoil_keys(service: Service) -> None:
    service.cluster.change(SECRETS, "keys", "shop", data={"cloud": "bm8ga2V5cw=="})


def spoil_spec(service: Service) -> None:
    spec = {"backupStorageLocationSpec": {**SPEC, "provider": "nobody's"}}
    service.cluster.change(NON_ADMIN_LOCATIONS, "mine", "shop", spec=spec)


def enlarge_spec(service: Service) -> None:
    spec = {"backupStorageLocationSpec": {**SPEC, "config": {"region": "r" * 500_000}}}
    service.cluster.change(NON_ADMIN_LOCATIONS, "mine", "shop", spec=spec)


@pytest.mark.found("K-F2")
@pytest.mark.parametrize("change", [edit, remove_keys, spoil_keys, spoil_spec, enlarge_spec])
@pytest.mark.parametrize(
    ("decision", "phase"),
    [("reject", "Rejected"), ("pending", "Pending"), ("perhaps", "Pending"), (None, "Pending")],
)
async def test_an_approval_is_withdrawn_in_every_state_of_the_location(
    change: Callable[[Service], None], decision: str | None, phase: str
) -> None:
    one = service(approval=True)
    await asked(one)
    await decide(one, "approve")
    change(one)
    await one.settle()
    assert copies(one) == (1, 1), "what a tenant does to its request takes nothing away"
    if decision is None:
        one.cluster.remove(NON_ADMIN_LOCATION_REQUESTS, request(one)["metadata"]["name"], SERVER)
        await one.settle()
    else:
        await decide(one, decision)
    assert copies(one) == (0, 0)
    assert [each["status"]["phase"] for each in one.cluster.of(NON_ADMIN_LOCATION_REQUESTS)] in ([phase], [])
    stated = {kind: status for kind, status, _ in conditions(non_admin_location(one))}
    assert stated["ClusterAdminApproved"] == "False"
    assert {"SecretSynced", "BackupStorageLocationSynced"}.isdisjoint(stated)
    assert non_admin_location(one)["status"]["phase"] in ("BackingOff", "New")
    before = one.cluster.effects()
    await one.look(NON_ADMIN_LOCATIONS, "shop", "mine")
    assert one.cluster.effects() == before


@pytest.mark.found("K-F2")
@pytest.mark.parametrize("change", [edit, remove_keys])
async def test_an_approval_that_is_given_again_makes_the_location_again(
    change: Callable[[Service], None],
) -> None:
    one = service(approval=True)
    await asked(one)
    await decide(one, "approve")
    change(one)
    await decide(one, "reject")
    await decide(one, "approve")
    assert copies(one) == (0, 0)
    one.cluster.change(NON_ADMIN_LOCATIONS, "mine", "shop", spec={"backupStorageLocationSpec": SPEC})
    one.cluster.remove(SECRETS, "keys", "shop")
    one.cluster.add(SECRETS, "keys", "shop", type="Opaque", data={"cloud": KEYS})
    await one.settle()
    assert copies(one) == (1, 1)
    assert non_admin_location(one)["status"]["phase"] == "Created"


@pytest.mark.found("K-F2")
@pytest.mark.parametrize("change", [edit, remove_keys, spoil_spec])
async def test_endpoints_are_withdrawn_in_every_state_of_the_location(
    change: Callable[[Service], None],
) -> None:
    """The server connects by the annotation, so that it must not outlive the administrator's setting."""
    one = Service(ScriptedCluster(), AdminSettings(allowed_endpoints=("10.0.0.0/8",)))
    await asked(one)
    change(one)
    await one.settle()
    one.settings = AdminSettings()
    await one.settle()
    (location,) = one.cluster.of(LOCATIONS)
    assert location["metadata"]["annotations"][ALLOWED_ENDPOINTS_ANNOTATION] == ""


@pytest.mark.found("K-F11")
@pytest.mark.parametrize(
    ("first", "second", "is_refused"),
    [
        ("", "late", True),
        ("a", "", True),
        ("a", "a/b", True),
        ("a", "b", False),
        ("a", "ab", False),
        ("a", "a", False),
    ],
)
async def test_a_location_in_the_folder_of_another_is_refused(
    first: str, second: str, is_refused: bool
) -> None:
    one = service()
    one.cluster.add(SECRETS, "keys", "shop", type="Opaque", data={"cloud": KEYS})
    for name, prefix in (("mine", first), ("late", second)):
        spec = {**SPEC, "objectStorage": {"bucket": "mine", **({"prefix": prefix} if prefix else {})}}
        one.cluster.add(NON_ADMIN_LOCATIONS, name, "shop", spec={"backupStorageLocationSpec": spec})
        await one.settle()
        one.cluster.clock.turn(60)
    one.cluster.add(
        NON_ADMIN_LOCATIONS,
        "elsewhere",
        "shop",
        spec={"backupStorageLocationSpec": {**SPEC, "objectStorage": {"bucket": "other", "prefix": "x"}}},
    )
    await one.settle()
    phases = {
        each["metadata"]["name"]: each["status"]["phase"] for each in one.cluster.of(NON_ADMIN_LOCATIONS)
    }
    late = "BackingOff" if is_refused else "Created"
    assert phases == {"mine": "Created", "late": late, "elsewhere": "Created"}
    if is_refused:
        found = one.cluster.peek(NON_ADMIN_LOCATIONS, "late", "shop")
        assert "of this location and mine, one would lie in the folder" in message(found or {}, "Accepted")


@pytest.mark.spec("NAC-040")
async def test_an_edit_after_approval_is_refused() -> None:
    one = service()
    await asked(one)
    before = one.cluster.of(LOCATIONS)
    edited = {**SPEC, "objectStorage": {"bucket": "other"}}
    one.cluster.change(NON_ADMIN_LOCATIONS, "mine", "shop", spec={"backupStorageLocationSpec": edited})
    await one.settle()
    assert one.cluster.of(LOCATIONS) == before
    assert conditions(non_admin_location(one))[-1] == ("SpecUpdateApproved", "False", "BslSpecUpdateRejected")
    assert non_admin_location(one)["status"]["phase"] == "Created"

    # Not by way of the collector either. (A21)
    one.cluster.remove(NON_ADMIN_LOCATION_REQUESTS, request(one)["metadata"]["name"], SERVER)
    await one.settle()
    assert one.cluster.of(LOCATIONS) == before
    assert request(one)["status"]["nonAdminBackupStorageLocation"]["requestedSpec"] == SPEC

    one.cluster.change(NON_ADMIN_LOCATIONS, "mine", "shop", spec={"backupStorageLocationSpec": SPEC})
    await one.settle()
    assert "SpecUpdateApproved" not in [kind for kind, _, _ in conditions(non_admin_location(one))]


@pytest.mark.spec("NAC-041")
async def test_deletion_removes_the_copies_and_the_requests_on_the_location() -> None:
    one = service()
    await asked(one)
    for name, storage in (("on-it", "mine"), ("elsewhere", "")):
        one.cluster.add(NON_ADMIN_BACKUPS, name, "shop", spec={"backupSpec": {"storageLocation": storage}})
    one.cluster.remove(NON_ADMIN_LOCATIONS, "mine", "shop")
    await one.settle()
    assert one.cluster.of(NON_ADMIN_LOCATIONS) == one.cluster.of(NON_ADMIN_LOCATION_REQUESTS) == []
    assert copies(one) == (0, 0)
    assert [each["metadata"]["name"] for each in one.cluster.of(NON_ADMIN_BACKUPS)] == ["elsewhere"]


@pytest.mark.spec("NAC-017")
async def test_a_secret_of_another_namespace_is_not_used() -> None:
    one = service()
    for namespace in ("other", SERVER):
        one.cluster.add(SECRETS, "keys", namespace, type="Opaque", data={"cloud": KEYS})
    one.cluster.add(NON_ADMIN_LOCATIONS, "mine", "shop", spec={"backupStorageLocationSpec": SPEC})
    await one.look(NON_ADMIN_LOCATIONS, "shop", "mine")
    assert non_admin_location(one)["status"]["phase"] == "BackingOff"
    assert (
        message(non_admin_location(one), "Accepted")
        == 'BSL credentials secret not found: Secret "keys" not found'
    )
    assert one.cluster.of(LOCATIONS) == []


@pytest.mark.spec("NAC-042")
async def test_a_location_waits_for_a_secret_that_comes_later() -> None:
    one = service()
    one.cluster.add(NON_ADMIN_LOCATIONS, "mine", "shop", spec={"backupStorageLocationSpec": SPEC})
    result = await one.look(NON_ADMIN_LOCATIONS, "shop", "mine")
    assert non_admin_location(one)["status"]["phase"] == "BackingOff"
    assert (
        message(non_admin_location(one), "Accepted")
        == 'BSL credentials secret not found: Secret "keys" not found'
    )
    assert result is not None
    assert result.requeue_after_seconds is not None
    one.cluster.add(SECRETS, "keys", "shop", type="Opaque", data={"cloud": KEYS})
    await one.settle()
    assert non_admin_location(one)["status"]["phase"] == "Created"


async def test_rotated_keys_are_copied_and_edits_of_the_copies_reverted() -> None:
    one = service()
    await asked(one)
    rotated = KEYS.replace("PWEK", "PWMK")
    one.cluster.change(SECRETS, "keys", "shop", data={"cloud": rotated})
    (location,) = one.cluster.of(LOCATIONS)
    one.cluster.change(
        LOCATIONS, location["metadata"]["name"], SERVER, spec={**location["spec"], "config": {"a": "b"}}
    )
    await one.settle()
    copy = one.cluster.peek(SECRETS, location["metadata"]["name"], SERVER)
    assert copy is not None
    assert copy["data"] == {"cloud": rotated}
    assert one.cluster.of(LOCATIONS)[0]["spec"] == location["spec"]
    assert ("SecretSynced", "True", "SecretUpdated") in conditions(non_admin_location(one))
    assert ("BackupStorageLocationSynced", "True", "BackupStorageLocationUpdated") in conditions(
        non_admin_location(one)
    )


async def test_a_refused_copy_shows_in_the_conditions() -> None:
    one = service()

    def refuse(verb: str, plural: str, _name: str) -> None:
        if (verb, plural) == ("create", "secrets"):
            raise Invalid(422, reason="Invalid", message="no")

    one.cluster.before = on_writes(refuse)
    await asked(one)
    assert conditions(non_admin_location(one))[-1] == ("SecretSynced", "False", "SecretSyncFailed")
    assert message(non_admin_location(one), "SecretSynced") == "Failed to sync secret to OADP namespace: no"
    assert copies(one) == (0, 0)
    delays = [
        await one.look(NON_ADMIN_LOCATIONS, "shop", non_admin_location(one)["metadata"]["name"])
        for _ in range(8)
    ]
    seconds = [each.requeue_after_seconds for each in delays if each and each.requeue_after_seconds]
    assert len(seconds) == 8
    assert seconds == sorted(seconds)
    assert seconds[0] >= 20
    assert seconds[-1] == 600


async def test_the_status_of_an_approval_request_is_restored() -> None:
    one = service(approval=True)
    await asked(one)
    one.cluster.change(NON_ADMIN_LOCATION_REQUESTS, request(one)["metadata"]["name"], SERVER, status={})
    await one.settle()
    assert request(one)["status"]["nonAdminBackupStorageLocation"]["requestedSpec"] == SPEC


async def test_the_location_says_which_endpoints_are_allowed() -> None:
    """The server and its node agents, which connect to it, do not know the settings."""
    one = Service(ScriptedCluster(), AdminSettings(allowed_endpoints=("10.0.0.0/8", "store.svc")))
    await asked(one)
    (location,) = one.cluster.of(LOCATIONS)
    assert location["metadata"]["annotations"][ALLOWED_ENDPOINTS_ANNOTATION] == "10.0.0.0/8,store.svc"

    one.settings = AdminSettings()
    await one.look(NON_ADMIN_LOCATIONS, "shop", "mine")
    (location,) = one.cluster.of(LOCATIONS)
    assert location["metadata"]["annotations"][ALLOWED_ENDPOINTS_ANNOTATION] == ""
    before = one.cluster.effects()
    await one.look(NON_ADMIN_LOCATIONS, "shop", "mine")
    assert one.cluster.effects() == before


@pytest.mark.parametrize(
    "kind",
    ["kubernetes.io/tls", "kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token", "x/y"],
)
async def test_a_secret_of_any_type_is_copied_as_nothing_but_a_key(kind: str) -> None:
    """The API server refuses copies of some types, again with every try, and acts on those of others."""
    one = service()
    data = {"cloud": KEYS, "tls.key": "bW9yZQ==", "token": "bW9yZQ=="}
    one.cluster.add(SECRETS, "keys", "shop", type=kind, data=data)
    one.cluster.add(NON_ADMIN_LOCATIONS, "mine", "shop", spec={"backupStorageLocationSpec": SPEC})
    await one.settle()
    (copy,) = [each for each in one.cluster.of(SECRETS) if each["metadata"]["namespace"] == SERVER]
    assert (copy["type"], copy["data"]) == ("Opaque", {"cloud": KEYS})
    assert non_admin_location(one)["status"]["phase"] == "Created"


async def test_the_reason_of_a_refused_copy_is_written_once() -> None:
    one = service()

    def refuse(verb: str, plural: str, _name: str) -> None:
        if (verb, plural) == ("create", "secrets"):
            raise Invalid(422, reason="Invalid", message='data: too large in namespace "canary"')

    one.cluster.before = on_writes(refuse)
    one.cluster.add(SECRETS, "keys", "shop", type="Opaque", data={"cloud": KEYS})
    one.cluster.add(NON_ADMIN_LOCATIONS, "mine", "shop", spec={"backupStorageLocationSpec": SPEC})
    for _ in range(3):
        with contextlib.suppress(Invalid):
            await one.look(NON_ADMIN_LOCATIONS, "shop", "mine")
    written = one.cluster.effects()
    with contextlib.suppress(Invalid):
        await one.look(NON_ADMIN_LOCATIONS, "shop", "mine")
    seen = next(
        each for each in non_admin_location(one)["status"]["conditions"] if each["type"] == "SecretSynced"
    )
    assert (seen["status"], seen["reason"]) == ("False", "SecretSyncFailed")
    assert seen["message"].startswith("Failed to sync secret to OADP namespace: data: too large")
    assert "canary" not in seen["message"]
    assert one.cluster.effects() == written  # the next try says nothing again
