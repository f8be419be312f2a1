"""Maintenance in Jobs: one for each maintenance, whoever started it, and its result in the repository."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.controllers.repository_jobs import CANNOT_OPEN, START_SECONDS, MaintenanceJobs, check_settings
from pinnace.controllers.repository_maintenance import MaintenanceReconciler
from pinnace.kube.errors import ConnectionFailed, Invalid
from pinnace.volumes.uploader.access import Repository
from pinnace.volumes.uploader.locks import RepositoryLocks
from tests.unit.controllers.fakes import BROKEN, NAMESPACE, World, fail_always, fail_once, key

PLURAL = "backuprepositories"
NOW = "2021-08-11T21:43:26Z"
LATER = "2021-08-11T21:53:26Z"


class NoUploader:
    """Attributes:
    calls: what the server itself did with repositories.
    """

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def connect(self, _repository: Repository) -> None:
        self.calls.append("connect")

    async def init(self, _repository: Repository) -> None:
        self.calls.append("init")

    async def unlock(self, _repository: Repository) -> None:
        return

    async def maintain(self, _repository: Repository) -> None:
        self.calls.append("maintain")


NO_WINDOWS = {
    "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "NotIn", "values": ["windows"]}]}
        ]
    }
}


class Scene:
    """A server, and a cluster that works on Jobs while the server sleeps.

    Attributes:
        work: changes a Job that runs; called at each sleep.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.uploader = NoUploader()
        self.work: Callable[[JSONObject], None] = self.succeed
        self.pod: JSONObject = {"status": {"phase": "Running"}}
        self.sleeps = 0
        self.container: JSONObject = {
            "name": "velero",
            "image": "example.org/pinnace:v1",
            "args": ["server", "--log-level=debug"],
            "env": [
                {"name": "AWS_SHARED_CREDENTIALS_FILE", "value": "/credentials/cloud"},
                {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
            ],
            "volumeMounts": [{"name": "cloud-credentials", "mountPath": "/credentials"}],
            "resources": {"limits": {"cpu": "9"}},
            "livenessProbe": {"httpGet": {"path": "/"}},
        }
        self.start()

    def start(self) -> None:
        """A new server."""
        self.jobs = MaintenanceJobs(self.world.scope, "maintenance")
        self.world.clock.sleep = self._sleep  # type: ignore[method-assign]
        self.server = MaintenanceReconciler(
            self.world.scope, self.uploader, RepositoryLocks(), jobs=self.jobs
        )

    def deploy(self) -> None:
        pod = {
            "serviceAccountName": "velero",
            "tolerations": [{"operator": "Exists"}],
            "priorityClassName": "high",
            "os": {"name": "linux"},
            "affinity": {"nodeAffinity": NO_WINDOWS, "podAntiAffinity": {}},
            "initContainers": [{"name": "plugin"}],
            "containers": [self.container],
            "volumes": [{"name": "cloud-credentials", "secret": {"secretName": "cloud-credentials"}}],
        }
        self.world.cluster.add("deployments", "velero", spec={"template": {"spec": pod}})

    def settings(self, **keys: Any) -> None:
        data = {name.replace("_", "-"): json.dumps(value) for name, value in keys.items()}
        self.world.cluster.vanish("configmaps", "maintenance")
        self.world.cluster.add("configmaps", "maintenance", data=data)

    async def pass_(self) -> None:
        await self.server.reconcile(key("repo"))

    async def _sleep(self, seconds: float) -> None:
        self.sleeps += 1
        for job in self.all_jobs():
            if not (job.get("status") or {}).get("succeeded") and not (job.get("status") or {}).get("failed"):
                self.world.cluster.vanish("pods", job["metadata"]["name"])
                self.world.cluster.add(
                    "pods", job["metadata"]["name"], labels={"job-name": job["metadata"]["name"]}, **self.pod
                )
                self.work(job)

    def succeed(self, job: JSONObject) -> None:
        job["status"] = {"startTime": NOW, "completionTime": LATER, "succeeded": 1}

    def fail(self, said: str = "", code: int = 1, condition: str = "") -> Callable[[JSONObject], None]:
        def work(job: JSONObject) -> None:
            terminated = {"state": {"terminated": {"message": said, "exitCode": code}}}
            pod = self.world.cluster.stored("pods", job["metadata"]["name"])
            pod["status"] = {"phase": "Failed", "containerStatuses": [terminated]}
            ended = {"type": "Failed", "status": "True", "lastTransitionTime": LATER}
            if condition:
                ended["message"] = condition
            job["status"] = {"startTime": NOW, "failed": 1, "conditions": [ended]}

        return work

    def all_jobs(self) -> list[JSONObject]:
        return self.world.cluster.of("jobs")

    @property
    def status(self) -> dict[str, Any]:
        return self.world.cluster.status(PLURAL, "repo")

    @property
    def container_of_job(self) -> JSONObject:
        [job] = self.all_jobs()
        [container] = job["spec"]["template"]["spec"]["containers"]
        found: JSONObject = container
        return found


@pytest.fixture
def scene(world: World) -> Scene:
    world.add_location()
    made = Scene(world)
    spec = {"volumeNamespace": "shop", "backupStorageLocation": "default", "repositoryType": "kopia"}
    spec["maintenanceFrequency"] = "1h0m0s"
    world.cluster.add(PLURAL, "repo", spec=spec, status={"phase": "Ready"})
    made.settings()
    made.deploy()
    return made


@pytest.mark.found("X10")
async def test_a_job_maintains_the_repository_and_its_result_is_noted(scene: Scene) -> None:
    await scene.pass_()

    assert scene.uploader.calls == []
    done = {"result": "Succeeded", "startTimestamp": NOW, "completeTimestamp": LATER}
    assert scene.status == {"phase": "Ready", "lastMaintenanceTime": NOW, "recentMaintenance": [done]}
    [job] = scene.all_jobs()
    assert job["metadata"]["name"].startswith("repo-maintain-job-")
    assert job["metadata"]["labels"][labels.REPOSITORY_NAME] == "repo"
    assert job["metadata"]["ownerReferences"][0]["uid"] == "uid-repo"
    assert job["spec"]["backoffLimit"] == 0
    pod = job["spec"]["template"]
    assert pod["metadata"]["labels"] == {labels.REPOSITORY_NAME: "repo"}
    assert pod["spec"]["serviceAccountName"] == "velero"
    assert pod["spec"]["tolerations"] == [{"operator": "Exists"}]
    assert pod["spec"]["restartPolicy"] == "Never"
    assert (pod["spec"]["os"], pod["spec"]["affinity"]) == ({"name": "linux"}, {"nodeAffinity": NO_WINDOWS})
    assert not {"priorityClassName", "initContainers"} & pod["spec"].keys()
    container = scene.container_of_job
    assert container["image"] == "example.org/pinnace:v1"
    assert (container["command"], container["args"]) == (
        ["pinnace"],
        ["repo-maintenance", "--repository=repo", "--log-level=debug"],
    )
    assert container["env"] == scene.container["env"]
    assert container["volumeMounts"] == scene.container["volumeMounts"]
    assert container["resources"] == {}
    assert "livenessProbe" not in container


async def test_each_setting_is_in_the_job(scene: Scene) -> None:
    everywhere = {
        "podResources": {"cpuRequest": "100m", "memoryLimit": "1Gi"},
        "priorityClassName": "low",
        "podAnnotations": {"a": "b"},
        "podLabels": {"team": "blue"},
    }
    nodes = {"matchLabels": {"pool": "x"}, "matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]}
    scene.settings(
        **{"global": everywhere, "shop_default_kopia": {"loadAffinity": [{"nodeSelector": nodes}]}}
    )

    await scene.pass_()

    assert scene.container_of_job["resources"] == {"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi"}}
    pod = scene.all_jobs()[0]["spec"]["template"]
    assert pod["spec"]["priorityClassName"] == "low"
    assert pod["metadata"]["annotations"] == {"a": "b"}
    assert pod["metadata"]["labels"] == {"team": "blue", labels.REPOSITORY_NAME: "repo"}
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert required["nodeSelectorTerms"] == [
        {
            "matchExpressions": [
                {"key": "pool", "operator": "In", "values": ["x"]},
                {"key": "gpu", "operator": "DoesNotExist", "values": []},
            ]
        }
    ]


@pytest.mark.parametrize("ends", ["during the outage", "afterwards"])
async def test_a_server_that_takes_over_starts_no_second_job(scene: Scene, ends: str) -> None:
    def die(job: JSONObject) -> None:
        if ends == "during the outage":
            scene.succeed(job)
        raise ConnectionError("the server dies")

    scene.work = die
    with pytest.raises(ConnectionError):
        await scene.pass_()
    scene.start()
    scene.work = scene.succeed

    await scene.pass_()
    await scene.pass_()

    assert len(scene.all_jobs()) == 1
    assert len(scene.status["recentMaintenance"]) == 1
    assert scene.status["lastMaintenanceTime"] == NOW


async def test_a_result_that_could_not_be_noted_is_noted_later_and_counts_once(scene: Scene) -> None:
    scene.world.cluster.before = fail_once("patch", PLURAL)
    with pytest.raises(ConnectionFailed):
        await scene.pass_()
    assert "recentMaintenance" not in scene.status

    await scene.pass_()

    assert len(scene.all_jobs()) == 1
    assert len(scene.status["recentMaintenance"]) == 1


async def test_a_lost_answer_makes_no_second_job(scene: Scene) -> None:
    scene.world.cluster.after = fail_once("create", "jobs")
    with pytest.raises(ConnectionFailed):
        await scene.pass_()

    await scene.pass_()

    assert len(scene.all_jobs()) == 1
    assert scene.status["recentMaintenance"][0]["result"] == "Succeeded"


@pytest.mark.parametrize(
    ("message", "condition", "told"),
    [
        ("no room in the bucket", "", "no room in the bucket"),
        ("", "Job was active longer than specified deadline", "Job was active longer"),
        ("", "", "the Job velero/repo-maintain-job-"),
    ],
    ids=["the process says why", "only the Job says why", "nobody says why"],
)
async def test_a_job_that_fails_is_a_failed_maintenance(
    scene: Scene, message: str, condition: str, told: str
) -> None:
    scene.work = scene.fail(message, condition=condition)

    await scene.pass_()

    [done] = scene.status["recentMaintenance"]
    assert (done["result"], done["startTimestamp"], done["completeTimestamp"]) == ("Failed", NOW, LATER)
    assert done["message"].startswith(told)
    assert scene.status["phase"] == "Ready"
    assert scene.status["message"] == done["message"]
    await scene.pass_()
    assert len(scene.all_jobs()) == 1


async def test_a_repository_that_the_job_cannot_open_is_not_ready_and_its_job_is_noted(scene: Scene) -> None:
    scene.work = scene.fail("wrong password", CANNOT_OPEN)

    await scene.pass_()

    assert scene.status["phase"] == "NotReady"
    assert scene.status["message"] == "wrong password"
    assert scene.status["lastMaintenanceTime"] == NOW


async def test_a_pod_that_does_not_start_is_given_up_with_the_reason(scene: Scene) -> None:
    unschedulable = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}
    scene.pod = {"status": {"phase": "Pending", "conditions": [unschedulable]}}
    scene.work = lambda _job: None

    await scene.pass_()

    assert scene.sleeps * 2.0 == START_SECONDS
    assert scene.all_jobs() == []
    [done] = scene.status["recentMaintenance"]
    assert done["result"] == "Failed"
    assert done["message"].endswith("did not start within 10 minutes: 0/3 nodes are available")


async def test_a_job_that_was_deleted_is_a_failed_maintenance(scene: Scene) -> None:
    def delete(job: JSONObject) -> None:
        scene.world.cluster.vanish("jobs", job["metadata"]["name"])

    scene.work = delete
    await scene.pass_()

    assert scene.status["recentMaintenance"][0]["message"].endswith("was deleted before it ended")


@pytest.mark.parametrize(("settings", "left"), [({}, 3), ({"keepLatestMaintenanceJobs": 1}, 1)])
async def test_the_latest_jobs_are_kept(scene: Scene, settings: dict[str, int], left: int) -> None:
    scene.settings(**{"global": settings})
    for number in range(5):
        began = (scene.world.clock.now() + timedelta(seconds=number)).strftime("%Y-%m-%dT%H:%M:%SZ")

        def succeed(job: JSONObject, began: str = began) -> None:
            job["status"] = {"startTime": began, "completionTime": began, "succeeded": 1}

        scene.work = succeed
        await scene.pass_()
        scene.world.clock.turn(timedelta(hours=2))

    assert len(scene.all_jobs()) == left
    newest = max(job["status"]["startTime"] for job in scene.all_jobs())
    assert newest == scene.status["lastMaintenanceTime"]


async def test_without_a_deployment_the_server_maintains_it_and_says_what_has_no_effect(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.world.cluster.vanish("deployments", "velero")
    await scene.pass_()
    assert scene.uploader.calls == ["maintain"]
    assert "have no effect" not in caplog.text

    scene.settings(**{"global": {"priorityClassName": "low"}})
    scene.world.clock.turn(timedelta(hours=2))
    await scene.pass_()

    assert scene.uploader.calls == ["maintain"] * 2
    assert "priority class" in caplog.text
    assert scene.all_jobs() == []


@pytest.mark.parametrize("missing", [False, True], ids=["not valid", "missing"])
async def test_settings_that_cannot_be_used_fail_the_maintenance_by_their_name(
    scene: Scene, missing: bool, caplog: pytest.LogCaptureFixture
) -> None:
    scene.settings(**{"global": {"podResource": {}}})
    if missing:
        scene.world.cluster.vanish("configmaps", "maintenance")
    told = "not found" if missing else "unknown field `podResource`"

    await check_settings(scene.world.scope, "maintenance")
    assert caplog.messages == [
        "Repositories cannot be maintained with the settings in the ConfigMap velero/maintenance that "
        "--repo-maintenance-job-configmap names"
    ]
    await scene.pass_()

    [done] = scene.status["recentMaintenance"]
    assert done["result"] == "Failed"
    assert told in done["message"]
    assert scene.all_jobs() == []
    assert scene.uploader.calls == []


async def test_a_credential_that_is_a_plain_value_is_not_copied(scene: Scene) -> None:
    scene.container["env"].append({"name": "AWS_SECRET_ACCESS_KEY", "value": "hunter2"})
    scene.world.cluster.vanish("deployments", "velero")
    scene.deploy()

    await scene.pass_()

    assert scene.all_jobs() == []
    [done] = scene.status["recentMaintenance"]
    assert "the Deployment velero has AWS_SECRET_ACCESS_KEY as a plain value" in done["message"]
    assert "hunter2" not in str(scene.status)


async def test_a_job_that_the_cluster_refuses_is_a_failed_maintenance(scene: Scene) -> None:
    error = Invalid(422, reason="Invalid", message="spec.template.labels: Invalid value")
    scene.world.cluster.before = fail_always("create", "jobs", error=error)

    await scene.pass_()

    assert "Invalid value" in scene.status["recentMaintenance"][0]["message"]


async def test_an_outage_changes_nothing(scene: Scene) -> None:
    scene.world.cluster.before = fail_always("get", "configmaps", error=BROKEN)
    with pytest.raises(ConnectionFailed):
        await scene.pass_()

    assert scene.status == {"phase": "Ready"}
    assert scene.world.cluster.stored(PLURAL, "repo")["metadata"]["namespace"] == NAMESPACE
