"""Unique ids, labels and the queue. (docs/spec: NAC 3, 7)"""

import re
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace.api.labels import RESUME_REQUESTED
from pinnace.api.nonadmin.names import Origin
from pinnace.api.objects import JSONObject
from pinnace.nonadmin import mirror
from pinnace.nonadmin.events import is_edited
from pinnace.nonadmin.identity import Ambiguous, new_id, origin_key, owner_metadata, unique_object
from pinnace.nonadmin.queue_position import WaitingQueue
from pinnace.runtime.keys import Key

UUID = "6f1c2d3e-1111-4222-8333-944455566677"


@pytest.mark.spec("NAC-001", "NAC-002", "NAC-003", "NAC-004", "NAC-005", "NAC-006")
@pytest.mark.parametrize(
    ("namespace", "name", "made", "length"),
    [
        ("default", "my-backup", f"default-my-backup-{UUID}", 54),
        ("mongo-persistent", "anothertest", f"mongo-persistent-anotherte-{UUID}", 63),
        ("some", "q" * 73, f"some-{'q' * 21}-{UUID}", 63),
        ("w" * 73, "e" * 73, f"{'w' * 25}-{UUID}", 62),
        ("w" * 25, "any", f"{'w' * 25}-{UUID}", 62),
        ("w" * 26, "", f"{'w' * 26}-{UUID}", 63),
        ("", "r" * 73, f"{'r' * 25}-{UUID}", 62),
        ("shop", "", f"shop-{UUID}", 41),
        ("", "", UUID, 36),
        ("a" * 23, "a.bcdef", f"{'a' * 23}-a-{UUID}", 62),
    ],
)
def test_an_id_is_made_of_namespace_name_and_uuid_as_far_as_they_fit(
    namespace: str, name: str, made: str, length: int
) -> None:
    assert new_id(namespace, name, UUID) == made
    assert len(made) == length


NAME = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,120}[a-z0-9])?", fullmatch=True).filter(
    lambda text: not re.search(r"\.[.-]|-\.", text)
)


@given(namespace=NAME, name=NAME)
def test_every_id_is_a_name_and_a_label(namespace: str, name: str) -> None:
    made = new_id(namespace, name, UUID)
    label = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
    assert len(made) <= 63
    assert re.fullmatch(rf"{label}(\.{label})*", made)
    assert uuid.UUID(made[-36:])


def velero_backup(**changes: JSONObject) -> JSONObject:
    marked = owner_metadata(Origin.BACKUP, "id-1", Key("shop", "nightly"))
    return {"metadata": {"name": "id-1", **marked, **changes}}


@pytest.mark.spec("NAC-037")
def test_ownership_needs_all_labels_and_annotations() -> None:
    good = velero_backup()["metadata"]
    assert origin_key(velero_backup(), Origin.BACKUP) == Key("shop", "nightly")
    incomplete: tuple[JSONObject, ...] = (
        {"labels": {}},
        {"annotations": {}},
        {"labels": {**good["labels"], "app.kubernetes.io/managed-by": "foo"}},
        {"annotations": {**good["annotations"], Origin.BACKUP.name_annotation: ""}},
        {"annotations": {**good["annotations"], Origin.BACKUP.name_annotation: "x" * 254}},
    )
    for changes in incomplete:
        assert origin_key(velero_backup(**changes), Origin.BACKUP) is None
    longest = {**good["annotations"], Origin.BACKUP.name_annotation: "x" * 253}
    assert origin_key(velero_backup(annotations=longest), Origin.BACKUP) is not None


@pytest.mark.spec("NAC-037")
def test_the_controllers_own_writes_queue_no_request() -> None:
    old = {"metadata": {"generation": 3, "resourceVersion": "7"}, "status": {}}
    mirrored = {"metadata": {"generation": 3, "resourceVersion": "8"}, "status": {"phase": "Created"}}
    assert not is_edited(old, mirrored)
    assert is_edited(old, {"metadata": {"generation": 4, "resourceVersion": "8"}, "status": {}})
    asked = {"metadata": {"generation": 3, "annotations": {RESUME_REQUESTED: "now"}}}
    assert is_edited(old, asked)
    assert not is_edited(asked, old)


@pytest.mark.spec("NAC-049")
def test_impostors_of_other_locations_do_not_count() -> None:
    real = {**velero_backup(), "spec": {"storageLocation": "default"}}
    twin: JSONObject = {"metadata": {"name": "twin"}, "spec": {"storageLocation": "evil"}}
    how = {"kind": "VeleroBackup", "label": "l", "value": "id-1", "namespace": "velero"}
    assert unique_object([twin, real], **how) is real
    twin["spec"]["storageLocation"] = "default"
    with pytest.raises(Ambiguous, match="multiple VeleroBackup objects found with label l=id-1 in namespace"):
        unique_object([twin, real], **how)


# --- The queue ------------------------------------------------------------------------------------------


def waiting(name: str, second: int, **status: str) -> JSONObject:
    created = f"2021-08-11T21:43:{second:02d}Z"
    return {"metadata": {"name": name, "namespace": "velero", "creationTimestamp": created}, "status": status}


@pytest.mark.spec("NAC-036", "NAC-058")
@pytest.mark.parametrize(
    ("others", "position"),
    [
        ([], 1),
        ([waiting("a", 1)], 2),
        ([waiting("a", 1, completionTimestamp="2021-08-11T21:44:00Z")], 1),
        ([waiting("z", 9)], 1),
        ([waiting("a", 5)], 1),
        ([waiting("a", 1, phase="FailedValidation")], 1),
        ([waiting("a", 1, phase="Failed")], 1),
        ([waiting("a", 1, phase="InProgress")], 2),
    ],
)
def test_a_position_counts_older_objects_that_wait(others: list[JSONObject], position: int) -> None:
    queue = WaitingQueue()
    target = waiting("target", 5)
    for obj in (*others, target):
        queue.put(obj)
    assert queue.position(target) == position
    assert queue.position(waiting("target", 5, phase="Completed")) == 0
    assert queue.position(None) == queue.position({"metadata": {"name": "x"}}) == 0


@given(
    st.lists(
        st.tuples(
            st.integers(0, 11),
            st.integers(0, 9),
            st.sampled_from(("New", "InProgress", "Completed", "FailedValidation", "gone")),
        ),
        max_size=40,
    )
)
def test_positions_follow_a_model_at_every_step(steps: list[tuple[int, int, str]]) -> None:
    """Every change of a position counts in `changes`, so that Positions misses none."""
    queue = WaitingQueue()
    model: dict[str, JSONObject] = {}
    born: dict[str, int] = {}
    for number, second, phase in steps:
        name = f"b{number}"
        before, changes = list(queue), queue.changes
        if phase == "gone":
            born.pop(name, None)
            if (obj := model.pop(name, None)) is not None:
                queue.remove(obj)
        else:
            obj = model[name] = waiting(name, born.setdefault(name, second), phase=phase)
            queue.put(obj)
        assert (queue.changes > changes) is (list(queue) != before)
        alive = {each: obj for each, obj in model.items() if obj["status"]["phase"] in ("New", "InProgress")}
        assert [key.name for key in queue] == sorted(alive, key=lambda each: (born[each], each))
        for each, obj in model.items():
            ahead = 0 if obj["status"]["phase"] == "InProgress" else sum(born[o] < born[each] for o in alive)
            assert queue.position(obj) == (1 + ahead if each in alive else 0)


@pytest.mark.spec("NAC-036")
def test_a_running_object_has_position_one_even_behind_older_ones() -> None:
    queue = WaitingQueue()
    for obj in (waiting("older", 1), target := waiting("target", 5, phase="InProgress")):
        queue.put(obj)
    assert queue.position(target) == 1


def test_a_shown_position_never_goes_up() -> None:
    shown = mirror.with_queue_position({}, 7, {})
    assert mirror.with_queue_position(shown, 9, {}) == shown
    assert mirror.shown_position(mirror.with_queue_position(shown, 3, {})) == 3
    assert mirror.shown_position(mirror.with_queue_position(shown, 0, {})) == 0


def test_a_far_position_alone_is_not_worth_a_write() -> None:
    shown = mirror.with_queue_position({}, 90, {})
    assert mirror.with_queue_position(shown, 80, shown) == shown
    assert mirror.shown_position(mirror.with_queue_position({**shown, "phase": "x"}, 80, shown)) == 80
    assert mirror.shown_position(mirror.with_queue_position(shown, 30, shown)) == 30


def test_a_position_that_is_not_a_number_counts_as_none() -> None:
    assert mirror.shown_position({"queueInfo": {"estimatedQueuePosition": "seven"}}) == 0
