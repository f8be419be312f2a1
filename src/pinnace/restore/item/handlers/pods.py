"""Pods and Jobs: what would run twice, or without its data, is left out. (docs/spec: RST 10, 16.2, 19, 21)"""

from functools import partial

import orjson

from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.api.restore_outcomes import Outcome
from pinnace.notices.codes import Code
from pinnace.restore.errors import LeftOut
from pinnace.restore.item.applying import Applied, Prepared
from pinnace.restore.item.handlers.handler import ItemVisit, RestoreHandler
from pinnace.restore.item.pods_of_jobs import OwningJob
from pinnace.restore.item.runtime_classes import forget_scheduling
from pinnace.restore.journal import JobEntry
from pinnace.restore.selection.reading import why_finished


class FinishedRestoreHandler(RestoreHandler):
    """Leaves out what is finished, and would run again."""

    def check(self, item: JSONObject) -> None:
        """Leave it out if it is finished."""
        if finished := why_finished(self.visit.ref, item):
            raise LeftOut(finished)


class JobRestoreHandler(FinishedRestoreHandler):
    """Creates a Job once, also if the restore is interrupted and the Job ends meanwhile."""

    async def before(self, item: JSONObject) -> JSONObject:
        """Leave out a Job that the interrupted restore created, and that the cluster has removed."""
        run, ref = self.visit.run, self.visit.ref
        was_made = run.request.journal.has_made_job(ref.target_namespace, ref.name)
        if was_made and await run.applier.existing.is_gone(ref, run.kinds.resource_for(ref, item)):
            raise LeftOut("", Outcome.CREATED)
        return item

    async def after(self, sent: Prepared, applied: Applied) -> None:
        """Note a new Job: the cluster may remove it when it has ended."""
        journal, ref = self.visit.run.request.journal, self.visit.ref
        was_made = journal.has_made_job(ref.target_namespace, ref.name)
        if applied.created is not None and not was_made:
            await journal.note(JobEntry(namespace=ref.target_namespace, name=ref.name))


class PodRestoreHandler(FinishedRestoreHandler):
    """Leaves pods to their Jobs and kubelets, and gives the others their data and hooks."""

    def __init__(self, visit: ItemVisit) -> None:
        super().__init__(visit)
        self._job: OwningJob | None = None

    async def before(self, item: JSONObject) -> JSONObject:
        """Leave out a mirror pod; find its Job, and take off what the old cluster put there."""
        run, ref = self.visit.run, self.visit.ref
        if (item["metadata"].get("annotations") or {}).get(labels.MIRROR_POD):
            raise LeftOut("it is a mirror pod, which its kubelet creates")
        self._job = run.pods_of_jobs.job_of(ref, item, run.kinds.filters)
        forget_scheduling(item, run.reader)
        return item

    async def prepared(self, item: JSONObject) -> None:
        """Leave it to its Job, or out if it would start without its data.

        Its actions have restored its claims, if they did not exist before.
        """
        run, ref, results = self.visit.run, self.visit.ref, self.visit.results
        if self._job is not None:
            if not run.volume_data.is_restored_into(ref, item):
                raise LeftOut(self._job.reason)
            if not self._job.is_finished:
                warning = (
                    f"{ref.id} is restored for the data of its volumes, though its Job {self._job.name} makes"
                    " new pods: it runs beside them, and belongs to no Job. Delete it once its data is"
                    " restored"
                )
                ref.warn(results, Code.POD_BESIDE_ITS_JOB, warning)
        if not await run.volume_data.admits_pod(ref, item, partial(self.visit.exists, item), results):
            raise LeftOut("it would start without the data of its volumes", Outcome.FAILED)
        if not await run.existing_claims.admits_pod(ref, item, results):
            raise LeftOut("the data of its volumes may not be written", Outcome.FAILED)

    async def after(self, sent: Prepared, applied: Applied) -> None:
        """Give a new pod its claims, its data and its hooks; say what an existing one misses."""
        run, ref, results = self.visit.run, self.visit.ref, self.visit.results
        if applied.created is not None:
            pod = orjson.loads(applied.created)
            run.volume_records.pod_created(ref, pod)
            # Without its claims, neither its data nor its hooks could be waited for with success.
            if await run.ephemeral_claims.give_to(ref, pod, results):
                run.pods.created(ref, pod, results)
        elif applied.in_cluster is not None:
            run.pods.found(ref, sent.item, results)
