"""Maintains repositories in Jobs of their own, with the image and the settings of the server's Deployment.

    none ──create──> active ──> ended ──its result is noted in the repository──> kept, the oldest deleted
                       └── no pod has started within 10 minutes ──> deleted, a failure

A Job is found by its label, and its result counts once: the time of its beginning becomes the time of the
last maintenance. So a server that takes over waits for the Job of the one before and starts no second. The
Job reads the location, the password and the credentials itself, as the server does. (docs/spec: BEY 6.3; ADR
076)
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import msgspec

from pinnace.api import API_VERSION, labels
from pinnace.api.maintenance_config import (
    MaintenanceConfig,
    check_maintenance_config,
    read_maintenance_config,
    repository_key,
)
from pinnace.api.meta import LabelSelector
from pinnace.api.objects import JSONObject, listed, mapping, objects, text
from pinnace.api.values.times import parse_time
from pinnace.api.velero.backup_repository import RESTIC_REPOSITORY, BackupRepository
from pinnace.controllers.shared.scope import Scope
from pinnace.controllers.shared.writes import delete_if_there
from pinnace.kube.errors import BadRequest, Forbidden, Invalid, KubeError, NotFound
from pinnace.kube.resources import BACKUP_REPOSITORIES, CONFIGMAPS, DEPLOYMENTS, JOBS, PODS
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import get_logger
from pinnace.volumes.uploader.processes import LONG_SECONDS

log = get_logger(__name__)

DEPLOYMENT: Final = "velero"
"""The Deployment of the server, whose image and settings the Jobs have."""

FLAG: Final = "--repo-maintenance-job-configmap"
CANNOT_OPEN: Final = 3
"""The exit code of the process of a Job whose repository cannot be opened."""

POLL_SECONDS: Final = 2.0
START_SECONDS: Final = 600.0
"""How long the pod of a Job may take to start. Volumes of the repository are not saved meanwhile."""

_LONGEST_NAME: Final = 63
_OF_POD: Final = (
    "dnsConfig",
    "dnsPolicy",
    "hostAliases",
    "imagePullSecrets",
    "nodeSelector",
    "os",
    "runtimeClassName",
    "securityContext",
    "serviceAccountName",
    "tolerations",
    "volumes",
)
"""The members of the Deployment's pods that the pods of Jobs have too."""

_OF_CONTAINER: Final = ("envFrom", "image", "imagePullPolicy", "securityContext", "volumeMounts")
_SECRET_NAME: Final = re.compile("secret|password|token|_key", re.IGNORECASE)


class Maintained(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one maintenance.

    Attributes:
        problem: why it failed; empty if it did not.
        cannot_open: whether it failed as the repository cannot be opened at all.
    """

    began: datetime
    ended: datetime
    problem: str = ""
    cannot_open: bool = False


@dataclass(frozen=True, slots=True)
class MaintenanceJobs:
    """Runs the maintenance of repositories in Jobs.

    Args:
        config_map: name of the ConfigMap with the settings of the Jobs.
    """

    scope: Scope
    config_map: str

    async def run(self, repository: BackupRepository) -> Maintained | None:
        """Wait for the Job of a repository that has not been noted yet, or for a new one.

        Returns:
            None where no Deployment says what a Job would run: the server has to maintain it itself.

        Raises:
            KubeError: the cluster cannot be asked now. A Job that was created is found again.
        """
        began = self.scope.clock.now()
        try:
            config = await self._config(repository)
            job = await self._unnoted(repository)
            if job is None:
                deployment = await self._deployment()
                if deployment is None:
                    self._warn_of_unused(config)
                    return None
                body = new_job(repository, deployment, config, now=began)
                job = await self.scope.client.create(JOBS, body, self.scope.namespace)
                log.info("Created the maintenance Job of the repository", job=job["metadata"]["name"])
        except (ValueError, Invalid, BadRequest, Forbidden) as error:
            problem = f"the maintenance Job cannot be created: {error}"
            return Maintained(began=began, ended=self.scope.clock.now(), problem=problem)
        return await self._ended(job)

    async def remove_old(self, repository: BackupRepository) -> None:
        """Delete the oldest ended Jobs of a repository, but for those that are kept. Raises KubeError."""
        try:
            keep = (await self._config(repository)).keep
        except ValueError:
            return  # the next maintenance says so
        ended = [job for job in await self._jobs(repository) if _has_ended(job)]
        for job in ended[: max(0, len(ended) - keep)]:
            await self._delete(job)

    async def _config(self, repository: BackupRepository) -> MaintenanceConfig:
        """Its settings. Raises ValueError, KubeError."""
        spec = repository.spec
        uploader = spec.repository_type or RESTIC_REPOSITORY
        key = repository_key(spec.volume_namespace, spec.backup_storage_location, uploader)
        data = await _settings(self.scope, self.config_map)
        try:
            return read_maintenance_config(data, key)
        except ValueError as error:
            raise ValueError(f"{_where(self.scope, self.config_map)} cannot be used: {error}") from error

    async def _deployment(self) -> JSONObject | None:
        try:
            return await self.scope.client.get(DEPLOYMENTS, DEPLOYMENT, self.scope.namespace)
        except NotFound:
            return None

    async def _jobs(self, repository: BackupRepository) -> list[JSONObject]:
        """All its Jobs, oldest first."""
        selector = f"{labels.REPOSITORY_NAME}={labels.label_value(repository.metadata.name)}"
        found = await self.scope.client.list_all(JOBS, self.scope.namespace, label_selector=selector)
        return sorted(found, key=lambda job: (_began(job), text(job, "metadata", "name")))

    async def _unnoted(self, repository: BackupRepository) -> JSONObject | None:
        """The newest Job if it runs, or if its result is not in the repository's status yet."""
        found = await self._jobs(repository)
        last = repository.status.last_maintenance_time
        if not found or (last is not None and _has_ended(found[-1]) and _began(found[-1]) <= last):
            return None
        return found[-1]

    async def _ended(self, job: JSONObject) -> Maintained:
        """The result of a Job, once it has ended."""
        client, namespace, name = self.scope.client, self.scope.namespace, job["metadata"]["name"]
        began, waited_seconds, has_started = _began(job), 0.0, False
        while not _has_ended(job):
            if not has_started:
                pod = await self._pod(name)
                has_started = text(pod, "status", "phase") not in ("", "Pending")
                if waited_seconds >= START_SECONDS and not has_started:
                    await self._delete(job)
                    problem = f"the pod of the Job {namespace}/{name} did not start within 10 minutes"
                    why = _why_pending(pod)
                    return Maintained(began=began, ended=self.scope.clock.now(), problem=problem + why)
            await self.scope.clock.sleep(POLL_SECONDS)
            waited_seconds += POLL_SECONDS
            try:
                job = await client.get(JOBS, name, namespace)
            except NotFound:
                problem = f"the Job {namespace}/{name} was deleted before it ended"
                return Maintained(began=began, ended=self.scope.clock.now(), problem=problem)
        completed = _time(text(job, "status", "completionTime"))
        ended = completed or _time(text(_final(job), "lastTransitionTime")) or self.scope.clock.now()
        if mapping(job, "status").get("succeeded"):
            return Maintained(began=began, ended=ended)
        state = _terminated(await self._pod(name))
        message = text(state, "message").strip() or text(_final(job), "message")
        return Maintained(
            began=began,
            ended=ended,
            problem=message or f"the Job {namespace}/{name} failed",
            cannot_open=state.get("exitCode") == CANNOT_OPEN,
        )

    async def _pod(self, job: str) -> JSONObject:
        """The pod of a Job; empty as long as there is none."""
        selector = f"job-name={job}"
        found = await self.scope.client.list_all(PODS, self.scope.namespace, label_selector=selector)
        return found[0] if found else {}

    async def _delete(self, job: JSONObject) -> None:
        metadata = job["metadata"]
        key = Key(self.scope.namespace, metadata["name"])
        await delete_if_there(self.scope.client, JOBS, key, uid=metadata["uid"], propagation="Background")

    def _warn_of_unused(self, config: MaintenanceConfig) -> None:
        """Say that settings of Jobs have no effect where there are none."""
        if config != MaintenanceConfig(keep=config.keep):
            log.warning(
                f"No Deployment {DEPLOYMENT} says what image a maintenance Job would have: the server"
                " maintains the repository itself, and the resources, affinity, priority class, labels and"
                f" annotations in the ConfigMap {self.config_map} have no effect"
            )


async def check_settings(scope: Scope, config_map: str) -> None:
    """Say at the start of a server what is wrong with the settings of all Jobs, and not at the first one."""
    try:
        check_maintenance_config(await _settings(scope, config_map))
    except ValueError as error:
        where = _where(scope, config_map)
        log.error(f"Repositories cannot be maintained with the settings in {where}", error=error)
    except KubeError as error:
        log.warning("The settings of maintenance Jobs cannot be read now", error=error)


async def _settings(scope: Scope, config_map: str) -> Mapping[str, str]:
    """The data of the ConfigMap. Raises ValueError, KubeError."""
    try:
        found = await scope.client.get(CONFIGMAPS, config_map, scope.namespace)
    except (NotFound, Forbidden) as error:
        raise ValueError(f"{_where(scope, config_map)} cannot be read: {error}") from error
    return mapping(found, "data")


def _where(scope: Scope, config_map: str) -> str:
    return f"the ConfigMap {scope.namespace}/{config_map} that {FLAG} names"


def new_job(
    repository: BackupRepository, deployment: JSONObject, config: MaintenanceConfig, *, now: datetime
) -> JSONObject:
    """The Job that maintains a repository once. Pure.

    Raises:
        ValueError: the Deployment has a credential as a plain value, which would be copied into the Job.
    """
    metadata = repository.metadata
    server = mapping(deployment, "spec", "template", "spec")
    first = next(iter(objects(server, "containers")), {})
    own = {labels.REPOSITORY_NAME: labels.label_value(metadata.name)}
    milliseconds = int(now.timestamp() * 1000)
    name = f"{metadata.name}-maintain-job-{milliseconds}"
    container: JSONObject = {
        **{member: first[member] for member in _OF_CONTAINER if member in first},
        "name": "velero-repo-maintenance-container",
        "command": ["pinnace"],
        "args": ["repo-maintenance", f"--repository={metadata.name}", *_log_flags(first)],
        "env": _environment(first),
        "resources": config.resources,
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    spec: JSONObject = {
        **{member: server[member] for member in _OF_POD if member in server},
        "restartPolicy": "Never",
        "containers": [container],
    }
    if config.nodes is not None:
        spec["affinity"] = _affinity(config.nodes)
    elif of_nodes := mapping(server, "affinity").get("nodeAffinity"):
        spec["affinity"] = {"nodeAffinity": of_nodes}
    if config.priority_class:
        spec["priorityClassName"] = config.priority_class
    pod_metadata: JSONObject = {"labels": {**config.labels, **own}}
    if config.annotations:
        pod_metadata["annotations"] = dict(config.annotations)
    owner = {"apiVersion": API_VERSION, "kind": BACKUP_REPOSITORIES.kind}
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {
            "name": name if len(name) <= _LONGEST_NAME else f"repo-maintain-job-{milliseconds}",
            "namespace": metadata.namespace,
            "labels": {**own, labels.EXCLUDE_FROM_BACKUP: labels.EXCLUDE_FROM_BACKUP_VALUE},
            "ownerReferences": [{**owner, "name": metadata.name, "uid": metadata.uid}],
        },
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": int(LONG_SECONDS + START_SECONDS),
            "template": {"metadata": pod_metadata, "spec": spec},
        },
    }


def _environment(container: JSONObject) -> list[JSONObject]:
    """The variables of the server. Raises ValueError for a credential that is a plain value."""
    variables = objects(container, "env")
    for each in variables:
        name, value = text(each, "name"), text(each, "value")
        if value and not value.startswith("/") and _SECRET_NAME.search(name):
            raise ValueError(
                f"the Deployment {DEPLOYMENT} has {name} as a plain value, which is not copied into Jobs: put"
                " it into a Secret and refer to that by valueFrom"
            )
    return variables


def _log_flags(container: JSONObject) -> list[str]:
    """The flags of the server's log, which the Job's has too."""
    given = [str(each) for each in listed(container, "args")]
    return [each for each in given if each.startswith(("--log-level=", "--log-format="))]


def _affinity(nodes: LabelSelector) -> JSONObject:
    expressions = [
        *({"key": key, "operator": "In", "values": [value]} for key, value in nodes.match_labels.items()),
        *(
            {"key": each.key, "operator": each.operator, "values": each.values}
            for each in nodes.match_expressions
        ),
    ]
    terms = [{"matchExpressions": expressions}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def _has_ended(job: JSONObject) -> bool:
    status = mapping(job, "status")
    return bool(status.get("succeeded") or status.get("failed") or _final(job))


def _began(job: JSONObject) -> datetime:
    created = _time(text(job, "metadata", "creationTimestamp"))
    return _time(text(job, "status", "startTime")) or created or datetime.min.replace(tzinfo=UTC)


def _time(found: str) -> datetime | None:
    return parse_time(found) if found else None


def _final(job: JSONObject) -> JSONObject:
    """The condition that says that a Job has ended; empty if there is none."""
    conditions = objects(job, "status", "conditions")
    ends = (each for each in conditions if each.get("type") in ("Complete", "Failed"))
    return next((each for each in ends if each.get("status") == "True"), {})


def _terminated(pod: JSONObject) -> JSONObject:
    statuses = objects(pod, "status", "containerStatuses")
    return mapping(statuses[0], "state", "terminated") if statuses else {}


def _why_pending(pod: JSONObject) -> str:
    """The cluster's reason why a pod does not start, as the end of a sentence."""
    for condition in objects(pod, "status", "conditions"):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return f": {text(condition, 'message')}"
    for status in objects(pod, "status", "containerStatuses"):
        waiting = mapping(status, "state", "waiting")
        if waiting:
            return f": {text(waiting, 'reason')} {text(waiting, 'message')}".rstrip()
    return ""
