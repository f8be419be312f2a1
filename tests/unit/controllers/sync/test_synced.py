"""When locations are synced, and that what a bucket holds is made harmless or refused. Pure."""

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace.api.codec import decode
from pinnace.api.values.durations import Duration
from pinnace.api.velero.backup import Backup
from pinnace.controllers.sync.synced import (
    NotSynced,
    SyncedLocation,
    backup_object,
    effective_period,
    is_due,
    is_found_in_location,
    pod_volume_backup_object,
)
from tests.support.clock import START
from tests.unit.controllers.fakes import NAMESPACE
from tests.unit.controllers.stored import stored_backup, stored_volume


@pytest.mark.spec("CTL-042")
@pytest.mark.parametrize(
    ("own", "server", "period"),
    [
        (Duration(), Duration.minutes(5), None),
        (Duration.seconds(-1), Duration.minutes(5), Duration.minutes(5)),
        (None, Duration.minutes(5), Duration.minutes(5)),
        (None, Duration(), Duration.minutes(1)),
        (None, Duration.seconds(-3), Duration.minutes(1)),
        (Duration.hours(1), Duration.minutes(5), Duration.hours(1)),
    ],
)
def test_the_period_of_a_location_is_its_own_or_the_servers(
    own: Duration | None, server: Duration, period: Duration | None
) -> None:
    assert effective_period(own, server) == period


@pytest.mark.spec("CTL-042")
@pytest.mark.parametrize(
    ("ago", "period", "due"),
    [
        (10, Duration.minutes(1), False),
        (60, Duration.minutes(1), True),
        (None, Duration.hours(2_000_000), True),
        (10**6, Duration.hours(2_000_000), False),
        (None, None, False),
    ],
)
def test_when_a_location_is_due(ago: int | None, period: Duration | None, due: bool) -> None:
    last = None if ago is None else START - timedelta(seconds=ago)

    assert is_due(last, period, START) is due


@pytest.mark.parametrize(
    ("phase", "created", "found"),
    [
        ("Completed", "2021-08-01T00:01:01Z", True),
        ("Failed", "2021-08-01T00:01:01Z", True),
        ("Completed", "2021-07-31T23:59:59Z", False),
        ("Deleting", "2021-08-01T00:01:01Z", False),
        ("InProgress", "2021-08-01T00:01:01Z", False),
    ],
)
def test_a_backup_found_in_a_location_is_younger_than_its_end(phase: str, created: str, found: bool) -> None:
    backup = stored_backup(phase=phase)
    backup["metadata"]["creationTimestamp"] = created

    assert is_found_in_location(decode(Backup, backup)) is found


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["metadata", "labels", "name", "status", "phase", "spec", "ownerReferences", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(json_values, st.sampled_from(["metadata", "spec", "status", None]))
def test_any_file_is_accepted_or_refused(value: Any, place: str | None) -> None:
    forged = {**stored_backup(), place: value} if place else value
    try:
        body = backup_object(
            json.dumps(forged).encode(),
            name="b1",
            found_in=SyncedLocation(name="default", namespace=NAMESPACE, schedule_uid=lambda _: None),
            now=START,
        )
    except NotSynced:
        return
    made = json.loads(body)
    assert (made["metadata"]["name"], made["metadata"]["namespace"]) == ("b1", NAMESPACE)
    assert made["status"]["phase"] in ("Completed", "PartiallyFailed", "Failed")
    assert made["spec"]["storageLocation"] == "default"
    assert set(made["metadata"]) <= {"name", "namespace", "labels", "annotations", "ownerReferences"}


@given(json_values, st.sampled_from(["metadata", "spec", "status", "kind"]))
def test_any_pod_volume_backup_is_accepted_or_refused(value: Any, place: str) -> None:
    try:
        name, body = pod_volume_backup_object(
            {**stored_volume(), place: value},
            backup="b1",
            backup_uid="uid",
            location="default",
            namespace=NAMESPACE,
        )
    except NotSynced:
        return
    made = json.loads(body)
    assert (made["metadata"]["name"], made["metadata"]["namespace"]) == (name, NAMESPACE)
    assert made["status"]["phase"] in ("Completed", "Failed")
    assert [owner["uid"] for owner in made["metadata"]["ownerReferences"]] == ["uid"]


HOOK = {"exec": {"command": ["/bin/sh"]}}


@pytest.mark.spec("AFT-160", "AFT-161")
@pytest.mark.parametrize(
    ("phase", "expired", "made"),
    [
        ("", False, None),
        ("New", True, None),
        ("Queued", False, None),
        ("ReadyToStart", False, None),
        ("InProgress", True, None),
        ("Deleting", True, None),
        ("FailedValidation", True, None),
        ("Whatever", True, None),
        ("WaitingForPluginOperations", False, None),
        ("WaitingForPluginOperations", True, "PartiallyFailed"),
        ("FinalizingPartiallyFailed", True, "PartiallyFailed"),
        ("Completed", False, "Completed"),
        ("PartiallyFailed", True, "PartiallyFailed"),
        ("Failed", False, "Failed"),
    ],
)
def test_only_an_ended_backup_is_made_known_and_without_its_hooks(
    phase: str, expired: bool, made: str | None
) -> None:
    hooks = {"resources": [{"name": "h", "pre": [HOOK], "post": [HOOK]}]}
    expiration = "2021-08-01T00:00:00Z" if expired else "2099-01-01T00:00:00Z"
    forged = {
        **stored_backup(),
        "spec": {"includedNamespaces": ["a"], "hooks": hooks},
        "status": {"phase": phase, "expiration": expiration},
    }

    def body() -> Any:
        found_in = SyncedLocation(name="default", namespace=NAMESPACE, schedule_uid=lambda _: None)
        return json.loads(backup_object(json.dumps(forged).encode(), name="b1", found_in=found_in, now=START))

    if made is None:
        with pytest.raises(NotSynced):
            body()
        return
    assert body()["status"]["phase"] == made
    assert body()["spec"] == {"includedNamespaces": ["a"], "hooks": {}, "storageLocation": "default"}
