"""`backup verify` through a server, which can also read the data of volumes."""

import secrets
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.api import labels
from pinnace.api.objects import mapping, text
from pinnace.api.values.times import format_time
from pinnace.api.verification_answer import VerificationAnswer
from pinnace.browse.checks import Check, CheckResult
from pinnace.cli.connect import open_cluster
from pinnace.cli.errors import CommandError
from pinnace.cli.guard import complain
from pinnace.cli.settings import Settings
from pinnace.client.lease import unless_absent
from pinnace.client.server_status import ask_server, is_ours
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import KubeError
from pinnace.kube.resources import BACKUPS

STATUS_SECONDS: Final = 10.0
"""How long a server may take to say that it is there."""

_POLL_SECONDS: Final = 0.5
_PATIENT_SECONDS: Final = 5.0
_ALIVE_SECONDS: Final = 60.0
"""How often the command checks that a server which has not answered still runs."""

_SLOW: Final = (
    "The server runs but has not verified backup {name} yet: it verifies other backups first, this one is"
    " large or not finished, or its controller `verification-request` is disabled. Still waiting;"
    " Ctrl-C ends that, and `--location URL` verifies without the server."
)


class VerifyingServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server that verifies backups on request.

    Attributes:
        share: how much of the data in repositories it reads, as in `--read-data`; empty for none.
    """

    client: KubeClient
    namespace: str
    share: str = ""
    clock: Clock = SYSTEM_CLOCK

    async def findings(self, name: str) -> list[Check]:
        """The server's findings about a backup. Raises CommandError, KubeError."""
        request = f"{format_time(SYSTEM_CLOCK.now())} {secrets.token_hex(4)}"
        notes = {labels.VERIFY_REQUESTED: request, labels.VERIFY_READ_DATA: self.share or None}
        await self.client.patch(BACKUPS, name, {"metadata": {"annotations": notes}}, self.namespace)
        answer = await self._answer(name, request)
        if answer.problem:
            raise CommandError(f"the server could not verify backup {name}: {answer.problem}")
        return [
            Check(name=check, result=_result(result), details=detail)
            for check, result, detail in answer.checks
        ]

    async def _answer(self, name: str, request: str) -> VerificationAnswer:
        began = seen = self.clock.monotonic()
        is_told, is_warned = not sys.stderr.isatty(), False
        while True:
            found = await self.client.get(BACKUPS, name, self.namespace)
            notes = mapping(found, "metadata", "annotations")
            answer = VerificationAnswer.decode(text(notes, labels.VERIFICATION_ANSWER))
            if answer is not None and answer.request == request:
                return answer
            now = self.clock.monotonic()
            if not is_told and now - began >= _PATIENT_SECONDS:
                complain(f"The server verifies backup {name}; waiting for the result.")
                is_told = True
            if now - seen >= _ALIVE_SECONDS:
                if problem := await _problem_of_server(self.client, self.namespace):
                    raise CommandError(f"backup {name} was not verified: {problem}")
                seen = now
                if not is_warned:
                    complain(_SLOW.format(name=name))
                    is_warned = True
            await self.clock.sleep(_POLL_SECONDS)


@asynccontextmanager
async def verifying_server(settings: Settings, share: str) -> AsyncIterator[VerifyingServer | str]:
    """The server of the settings; the reason if there is none that verifies backups on request.

    Raises:
        ServerAbsent: no server runs at all, so that nothing would hand out the files of a backup either.
    """
    async with open_cluster(settings) as client:
        try:
            asked = _problem_of_server(client, settings.namespace)
            problem = await unless_absent(client, settings.namespace, asked)
        except KubeError as error:
            problem = f"the server in namespace {settings.namespace} cannot be asked: {error}"
        if problem:
            yield problem
        else:
            yield VerifyingServer(client=client, namespace=settings.namespace, share=share)


async def _problem_of_server(client: KubeClient, namespace: str) -> str:
    if is_ours(await ask_server(client, namespace, STATUS_SECONDS)):
        return ""
    return f"no Pinnace server answers in namespace {namespace}"


def _result(word: str) -> CheckResult:
    try:
        return CheckResult(word)
    except ValueError:
        return CheckResult.NOT_CHECKED
