"""Leaves the pods of Jobs to the Jobs that the same restore brings back. (docs/spec: RST 10; docs/adr/085)

A restored Job makes new pods, and does not adopt one from the backup, whose labels name the old Job:
both would do the work side by side, and the one from the backup would belong to nobody for ever. The
exceptions are pods with the data of volumes, which is restored into the pods themselves, and Jobs with a
selector of their user's own, which adopt.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from pinnace.api import kinds
from pinnace.api.objects import JSONObject, mapping, objects, text
from pinnace.archive.errors import MissingItem
from pinnace.restore.errors import ItemError
from pinnace.restore.selection.collect import RestoreFilter
from pinnace.restore.selection.reading import ItemReader, ItemRef, decode, why_finished

JOBS: Final = kinds.JOBS.group_resource


class OwningJob(msgspec.Struct, frozen=True, kw_only=True):
    """The Job that owns a pod, and comes back or is left out as finished in the same restore.

    Attributes:
        reason: why the pod is left out.
        is_finished: whether the Job is left out too.
    """

    name: str
    reason: str
    is_finished: bool


class PodsOfJobs:
    """Finds the Jobs of pods; each Job is read once.

    Args:
        may_restore: whether the cluster serves Jobs, and this restore may create them.
    """

    def __init__(self, reader: ItemReader, may_restore: Callable[[], bool]) -> None:
        self._reader = reader
        self._may_restore = may_restore
        self._known: dict[tuple[str, str, str], OwningJob | None] = {}

    def job_of(self, ref: ItemRef, pod: JSONObject, filters: RestoreFilter) -> OwningJob | None:
        """The Job that a restore leaves a pod to; None if the pod is restored like others.

        Args:
            pod: as in the backup.
        """
        for owner in objects(pod, "metadata", "ownerReferences"):
            if owner.get("kind") == "Job" and text(owner, "apiVersion").startswith("batch/"):
                key = (ref.original_namespace, text(owner, "name"), text(owner, "uid"))
                if key not in self._known:
                    self._known[key] = self._find(*key, filters)
                return self._known[key]
        return None

    def _find(self, namespace: str, name: str, uid: str, filters: RestoreFilter) -> OwningJob | None:
        if filters.objects is not None and (JOBS, namespace, name) not in filters.objects:
            return None
        if not filters.resources.matches(JOBS) or not self._may_restore():
            return None
        ref = ItemRef(JOBS, namespace, filters.target_namespace(namespace), name)
        try:
            job = decode(ref, self._reader.read(JOBS, namespace, name))
            finished = why_finished(ref, job)
        except (MissingItem, ItemError):
            return None  # it is not in the backup, or reported with its own item
        if not filters.labels.matches(mapping(job, "metadata", "labels")):
            return None
        if text(job, "metadata", "uid") not in ("", uid):
            return None  # another Job of the same name, made after the pod
        if finished:
            return OwningJob(name=name, reason=f"its Job {name} is finished", is_finished=True)
        if mapping(job, "spec").get("manualSelector") is True:
            return None
        return OwningJob(name=name, reason=f"its Job {name} makes new pods", is_finished=False)
