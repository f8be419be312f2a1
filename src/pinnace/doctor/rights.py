"""Checks whether this user, or the server's account, has the rights that backups and restores need.

The first question is about all resources at once (`*`), which most accounts of backup servers may use; for
other accounts each resource of the cluster is asked about.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import orjson

from pinnace.api.objects import JSONObject, dump_json
from pinnace.doctor.findings import Finding, listed, ok, problem
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import APIResource
from pinnace.notices.codes import Code

CHECK = "rights"
RIGHTS = "create selfsubjectaccessreviews.authorization.k8s.io and get /api and /apis"
"""The right that this check needs; every user has it by default."""
BACKUP_VERBS = ("list", "get")
RESTORE_VERBS = ("create", "patch", "get")
_NEVER_WRITTEN = frozenset({"events", "nodes", "componentstatuses"})
"""No restore creates these."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One right: a verb on a resource, in a namespace or, if empty, everywhere."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    subresource: str = ""

    def __str__(self) -> str:
        name = f"{self.resource}.{self.group}" if self.group not in ("", "*") else self.resource
        name += f"/{self.subresource}" if self.subresource else ""
        return f"{self.verb} {name}" + (f" in {self.namespace}" if self.namespace else "")


@dataclass(frozen=True, slots=True)
class Account:
    """The account whose rights are checked; by default the user who asks."""

    user: str = ""
    groups: tuple[str, ...] = ()

    @classmethod
    def of_service_account(cls, namespace: str, name: str) -> "Account":
        """The account of a pod."""
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
        return cls(f"system:serviceaccount:{namespace}:{name}", groups)


@dataclass(frozen=True, slots=True)
class Answers:
    """The rights that an account lacks, by what they are needed for: `a backup`, `a restore`."""

    account: str
    missing: dict[str, list[Asked]] = field(default_factory=dict)


async def read_rights(
    client: KubeClient, account: Account, namespaces: Sequence[str], served: Sequence[APIResource]
) -> Answers:
    """Ask the API server. Raises KubeError.

    Args:
        namespaces: the scope; empty for the whole cluster.
        served: the resources of the cluster.
    """
    needs = {"a backup": BACKUP_VERBS, "a restore": RESTORE_VERBS}
    missing = {}
    for purpose, verbs in needs.items():
        asked = [Asked(verb, "*", "*", namespace) for verb in verbs for namespace in namespaces or [""]]
        refused = await _refused(client, account, asked)
        if refused:
            refused = await _refused(client, account, wanted(purpose, verbs, namespaces, served))
        missing[purpose] = refused
    hooks = [Asked("create", "", "pods", namespace, "exec") for namespace in namespaces or [""]]
    missing["running hooks in pods"] = await _refused(client, account, hooks)
    return Answers(account.user, missing)


def wanted(
    purpose: str, verbs: Sequence[str], namespaces: Sequence[str], served: Sequence[APIResource]
) -> list[Asked]:
    """Each right that the purpose needs. A scope of namespaces needs no right outside of them."""
    asked = []
    for resource in served:
        if purpose == "a restore" and ("create" not in resource.verbs or resource.name in _NEVER_WRITTEN):
            continue
        if "list" not in resource.verbs or (namespaces and not resource.namespaced):
            continue
        asked += [
            Asked(verb, resource.group, resource.name, namespace)
            for verb in verbs
            if verb in resource.verbs
            for namespace in (namespaces or [""])
        ]
    return asked


async def _refused(client: KubeClient, account: Account, asked: Sequence[Asked]) -> list[Asked]:
    answers = await asyncio.gather(*(_allowed(client, account, one) for one in asked))
    return [one for one, allowed in zip(asked, answers, strict=True) if not allowed]


async def _allowed(client: KubeClient, account: Account, asked: Asked) -> bool:
    attributes = {"verb": asked.verb, "group": asked.group, "resource": asked.resource}
    if asked.namespace:
        attributes["namespace"] = asked.namespace
    if asked.subresource:
        attributes["subresource"] = asked.subresource
    spec: JSONObject = {"resourceAttributes": attributes}
    kind, plural = "SelfSubjectAccessReview", "selfsubjectaccessreviews"
    if account.user:
        kind, plural = "SubjectAccessReview", "subjectaccessreviews"
        spec |= {"user": account.user, "groups": list(account.groups)}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
    path = f"/apis/authorization.k8s.io/v1/{plural}"
    answer = orjson.loads(await client.request("POST", path, body=dump_json(body)))
    return bool((answer.get("status") or {}).get("allowed"))


def judge(answers: Answers, namespaces: Sequence[str]) -> list[Finding]:
    """One finding for each purpose."""
    account = answers.account or "this user"
    scope = f"of {listed(list(namespaces))}" if namespaces else "of the whole cluster"
    findings = []
    for purpose, missing in answers.missing.items():
        of_scope = f"{purpose} {scope}"
        if not missing:
            findings.append(ok(CHECK, f"{account} may do what {of_scope} needs"))
            continue
        names = listed([str(right) for right in missing])
        findings.append(
            problem(
                CHECK,
                f"{account} lacks rights that {of_scope} needs: {names}",
                "give the account a ClusterRole with these verbs, or limit the scope (--include-namespaces)",
                code=Code.RIGHTS_MISSING,
            )
        )
    return findings
