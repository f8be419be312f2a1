"""Verifies a Backup when its annotation `pinnace.io/verify-requested` is new. (docs/adr/067)

    `verify-requested: <any text>` ──> verified ──> `verification-answer`, which repeats the text

A Backup that is not finished is verified when it is. If its location does not answer, the answer says so, as
a command waits for it.
"""

from dataclasses import dataclass
from typing import Final

from pinnace.api import labels, phases
from pinnace.api.codec import DecodeError, decode
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.velero.backup import Backup
from pinnace.api.verification_answer import VerificationAnswer
from pinnace.controllers.shared.parts import Parts
from pinnace.controllers.verification.verifier import WORKERS, BackupVerifier
from pinnace.kube.errors import PASSING_ERRORS, KubeError, NotFound
from pinnace.kube.resources import BACKUPS
from pinnace.runtime.controller import DONE, Controller, Result
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import bound_fields
from pinnace.storage.errors import StorageError
from pinnace.volumes.uploader.share import ReadShare

NAME: Final = "verification-request"


@dataclass(frozen=True, slots=True)
class RequestReconciler:
    """Answers requests for verifications."""

    verifier: BackupVerifier

    async def reconcile(self, key: Key) -> Result:
        """Verify the Backup if that is asked for and not yet answered."""
        try:
            found = await self.verifier.scope.client.get(BACKUPS, key.name, key.namespace)
        except NotFound:
            return DONE
        if not is_open(found):
            return DONE
        notes = mapping(found, "metadata", "annotations")
        with bound_fields(backup=str(key)):
            try:
                backup = decode(Backup, found)
            except DecodeError as error:
                await self._refuse(found, text(notes, labels.VERIFY_REQUESTED), f"it cannot be read: {error}")
            else:
                await self._answer(backup, found, notes)
        return DONE

    async def _refuse(self, backup: JSONObject, request: str, problem: str) -> None:
        answer = VerificationAnswer(request=request, problem=problem)
        notes: dict[str, str | None] = {labels.VERIFICATION_ANSWER: answer.encode()}
        await self.verifier.annotate(Key.of(backup), text(backup, "metadata", "uid"), notes)

    async def _answer(self, backup: Backup, found: JSONObject, notes: JSONObject) -> None:
        request, share = text(notes, labels.VERIFY_REQUESTED), text(notes, labels.VERIFY_READ_DATA)
        if backup.status.phase in phases.NOTHING_TO_VERIFY:
            problem = f"its phase is {backup.status.phase}"
        elif backup.status.phase not in phases.FINISHED:
            return
        else:
            try:
                findings = await self.verifier.findings(backup, ReadShare.parse(share) if share else None)
            except PASSING_ERRORS:
                raise
            except ValueError as error:
                problem = f"annotation {labels.VERIFY_READ_DATA}: {error}"
            except (StorageError, KubeError) as error:
                problem = str(error)
            else:
                checks = [(each.name, str(each.result), each.details) for each in findings]
                answer = VerificationAnswer(request=request, checks=checks)
                await self.verifier.note(backup, findings, answer.encode())
                return
        await self._refuse(found, request, problem)


def is_open(backup: JSONObject) -> bool:
    """Whether a verification of a Backup is asked for and not yet answered. Pure."""
    notes = mapping(backup, "metadata", "annotations")
    request = text(notes, labels.VERIFY_REQUESTED)
    if not request or backup["metadata"].get("deletionTimestamp"):
        return False
    answer = VerificationAnswer.decode(text(notes, labels.VERIFICATION_ANSWER))
    return answer is None or answer.request != request


def controller(parts: Parts) -> Controller:
    """The controller of a server that answers requests for verifications."""
    informer = parts.informers.of(BACKUPS)
    queue = parts.queue(parts.lanes.of_verifications(informer, WORKERS))
    reconciler = RequestReconciler(BackupVerifier.of(parts))
    made = Controller(NAME, reconciler.reconcile, workers=WORKERS, clock=parts.scope.clock, queue=queue)
    made.watch(informer, predicate=is_open)
    return made
