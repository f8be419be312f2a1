"""The Helm chart: with Helm itself, against what `pinnace install` makes and against a real API server."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.helm import definitions
from deploy.helm.monitoring import dashboard, rules
from hack.cluster import binaries
from hack.cluster.control_plane import ControlPlane
from hack.cluster.errors import ProgramUnavailable
from pinnace.api.objects import JSONObject
from pinnace.cli.program import run
from pinnace.installing.sending import RESOURCES
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import AlreadyExists, NotFound
from pinnace.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, DEPLOYMENTS, APIResource
from pinnace.nonadmin import manifests
from tests.support.cluster.connect import Connect

HELM_SECONDS = 180
KINDS = {
    kind: APIResource(group=group, version="v1", name=f"{kind.lower()}s", kind=kind, namespaced=True)
    for kind, group in (("PodDisruptionBudget", "policy"), ("ConfigMap", ""))
}
"""Kinds that `install` has no use for."""
IMAGE = "registry.example.com/pinnace:v7"
SMALLEST = ["--set", "image.repository=registry.example.com/pinnace,image.tag=v7"]
LOCATION = ["--set", "backupLocation.bucket=b"]

CASES = {
    "smallest": (
        ["--provider", "aws", "--bucket", "b", "--no-secret"],
        LOCATION,
    ),
    "no locations": (
        ["--no-default-backup-location", "--use-volume-snapshots=false", "--no-secret"],
        ["--set", "backupLocation.enabled=false,snapshotLocation.enabled=false"],
    ),
    "another provider, by a plugin": (
        [
            *("--provider", "gcp", "--bucket", "b", "--no-secret"),
            *("--plugins", "a.example.com:5000/x/y_z:v1,b@sha256:1"),
        ],
        [*LOCATION, "--set", "backupLocation.provider=gcp,plugins={a.example.com:5000/x/y_z:v1,b@sha256:1}"],
    ),
    "a privileged node agent": (
        [
            *("--provider", "aws", "--bucket", "b", "--no-secret", "--use-node-agent"),
            *("--privileged-node-agent", "--kubelet-root-dir", "/k"),
        ],
        [
            *(*LOCATION, "--set", "nodeAgent.enabled=true,nodeAgent.privileged=true"),
            *("--set", "nodeAgent.podVolumePath=/k/pods"),
        ],
    ),
    "self-service": (
        [
            *("--provider", "aws", "--bucket", "b", "--no-secret", "--minimal-rbac", "--non-admin"),
            *("--pod-annotations", "a=b"),
        ],
        [*LOCATION, "--set", "nonAdmin.enabled=true,rbac.minimal=true,podAnnotations.a=b"],
    ),
    "self-service by the server": (
        ["--provider", "aws", "--bucket", "b", "--no-secret", "--features", "EnableCSI,NonAdmin"],
        [*LOCATION, "--set", r"features=EnableCSI\,NonAdmin"],
    ),
    "everything": (
        [
            *("--provider", "aws", "--bucket", "b", "--prefix", "p", "--secret-file", "FOLDER/credentials"),
            *("--cacert", "FOLDER/ca.pem", "--backup-location-config", "s3ForcePathStyle=true,s3Url=http://x:1"),
            *("--snapshot-location-config", "region=r", "--use-restic", "--default-volumes-to-restic"),
            *("--default-restic-prune-frequency", "24h", "--restic-password-file", "FOLDER/password"),
            *("--restore-only", "--features", "EnableCSI,EnableAPIGroupVersions", "--minimal-rbac"),
            *("--pod-annotations", "prometheus.io/scrape=false,a=b", "--sa-annotations", "role=arn:x"),
            *("--pod-labels", "azure.workload.identity/use=true"),
            *("--velero-pod-cpu-limit", "0", "--velero-pod-mem-request", "1Gi"),
            *("--velero-pod-mem-limit", "2Gi"),
            *("--plugins", "velero/velero-plugin-for-gcp:v1.2.0,my-image"),
        ],
        [
            *(*LOCATION, "--set", "backupLocation.prefix=p,backupLocation.config.s3ForcePathStyle=true"),
            *("--set", "backupLocation.config.s3Url=http://x:1,snapshotLocation.config.region=r"),
            *("--set-file", "credentials.content=FOLDER/credentials,backupLocation.caCert=FOLDER/ca.pem"),
            *("--set-file", "restic.password=FOLDER/password"),
            *("--set", "nodeAgent.enabled=true,server.defaultVolumesToRestic=true,server.restoreOnly=true"),
            *("--set", "server.defaultResticPruneFrequency=24h0m0s,rbac.minimal=true"),
            *("--set", r"features=EnableCSI\,EnableAPIGroupVersions"),
            *("--set-string", r"podAnnotations.prometheus\.io/scrape=false,podAnnotations.a=b"),
            *("--set-string", r"podLabels.azure\.workload\.identity/use=true"),
            *("--set", "serviceAccount.annotations.role=arn:x,server.resources.limits.cpu=null"),
            *("--set", "server.resources.requests.memory=1Gi,server.resources.limits.memory=2Gi"),
            *("--set", "plugins={velero/velero-plugin-for-gcp:v1.2.0,my-image}"),
        ],
    ),
}  # fmt: skip
"""The same settings as flags of `install` and as values of the chart."""


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> "Helm":
    """Helm, with folders of its own."""
    try:
        program = binaries.locate(binaries.CHART_TOOLS)["helm"]
    except ProgramUnavailable as error:
        pytest.skip(str(error))
    return Helm(program, tmp_path_factory.mktemp("helm"))


class Helm:
    """Run Helm, which must succeed; return its output."""

    def __init__(self, program: Path, folder: Path) -> None:
        self.program = program
        self.environ = {f"HELM_{name}_HOME": str(folder / name) for name in ("CACHE", "CONFIG", "DATA")}
        self.environ["HOME"] = str(folder)  # without one it keeps what it discovers where it was started

    def __call__(self, *words: str, kubeconfig: Path | None = None) -> str:
        done = self.run(*words, kubeconfig=kubeconfig)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def run(self, *words: str, kubeconfig: Path | None = None) -> "subprocess.CompletedProcess[str]":
        environ = {**self.environ, "KUBECONFIG": str(kubeconfig or "/dev/null")}
        return subprocess.run(
            [self.program, *words],
            env=environ,
            capture_output=True,
            text=True,
            timeout=HELM_SECONDS,
            check=False,
        )

    def render(self, namespace: str, *values: str) -> list[JSONObject]:
        text = self("template", "x", str(definitions.CHART), "--namespace", namespace, *SMALLEST, *values)
        return [document for document in yaml.safe_load_all(text) if document]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("credentials", "ca.pem", "password"):
        (tmp_path / name).write_text(f"content of {name}\n")
    return tmp_path


def in_folder(words: list[str], folder: Path) -> list[str]:
    return [word.replace("FOLDER", str(folder)) for word in words]


def by_name(objects: list[JSONObject]) -> dict[str, JSONObject]:
    """The objects as the API server takes them: without empty times, in no order.

    And without what keeps definitions when the release goes: `install` has no releases.
    """
    found = {f"{obj['kind']}/{obj['metadata']['name']}": without_nulls(obj) for obj in objects}
    for obj in found.values():
        if obj["metadata"].get("annotations") == definitions.KEEP:
            del obj["metadata"]["annotations"]
    assert len(found) == len(objects)
    return found


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(member) for key, member in value.items() if member is not None}
    return [without_nulls(member) for member in value] if isinstance(value, list) else value


@pytest.mark.parametrize("namespace", ["velero", "backup"])
@pytest.mark.parametrize("case", CASES)
def test_it_makes_what_install_makes(
    helm: Helm, folder: Path, capsys: pytest.CaptureFixture[str], case: str, namespace: str
) -> None:
    flags, values = (in_folder(words, folder) for words in CASES[case])
    assert run(["install", "-n", namespace, "--image", IMAGE, *flags, "--dry-run", "-o", "json"]) == 0
    installed = json.loads(capsys.readouterr().out)["items"]
    # Helm makes the namespace itself (--create-namespace), and definitions from a folder of their own.
    expected = [obj for obj in installed if not is_made_by_helm(obj)]

    made = by_name(helm.render(namespace, *values))
    for name, obj in list(made.items()):
        # Of the chart alone: an upgrade can then change which rights there are.
        if name.startswith("ClusterRoleBinding/") and name.endswith("-minimal"):
            del made[name]
            obj["metadata"]["name"] = obj["metadata"]["name"].removesuffix("-minimal")
            made[name.removesuffix("-minimal")] = obj
    assert made == by_name(expected)


def is_made_by_helm(obj: JSONObject) -> bool:
    if obj["kind"] == "CustomResourceDefinition":
        return str(obj["metadata"]["name"]).endswith(".velero.io")
    return bool(obj["kind"] == "Namespace")


def test_its_definitions_are_those_of_this_version() -> None:
    for path, made in definitions.files().items():
        assert path.read_text() == definitions.text(made), "run `python -m deploy.helm.definitions`"


def test_its_other_generated_files_are_those_of_this_version() -> None:
    for path, made in definitions.other_files().items():
        assert path.read_text() == made, f"{path.name}: run `python -m deploy.helm.definitions`"


def test_schedules_locations_and_monitoring_are_values(helm: Helm) -> None:
    schedules = '{"nightly":{"schedule":"0 1 * * *","template":{"includedNamespaces":["shop"]}}}'
    locations = '{"second":{"provider":"aws","objectStorage":{"bucket":"c"},"accessMode":"ReadOnly"}}'
    rendered = by_name(
        helm.render(
            "velero",
            *(*LOCATION, "--set", "metrics.serviceMonitor.enabled=true,metrics.prometheusRule.enabled=true"),
            *("--set", "metrics.dashboard.enabled=true,metrics.serviceMonitor.labels.release=prometheus"),
            *("--set-json", f"schedules={schedules}", "--set-json", f"extraBackupLocations={locations}"),
        )
    )

    assert rendered["Schedule/nightly"]["spec"] == json.loads(schedules)["nightly"]
    second = rendered["BackupStorageLocation/second"]
    assert second["spec"] == json.loads(locations)["second"]
    monitor, service = rendered["ServiceMonitor/velero"], rendered["Service/velero-metrics"]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert monitor["spec"]["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    pod = rendered["Deployment/velero"]["spec"]["template"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert rendered["PrometheusRule/velero"]["spec"] == rules("velero")
    shown = rendered["ConfigMap/velero-dashboard"]["data"]["pinnace.json"]
    assert json.loads(shown) == dashboard()


def test_helm_finds_nothing_to_complain_about(helm: Helm) -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", str(definitions.CHART), *SMALLEST, *LOCATION)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([], "backupLocation.bucket is required"),
        ([*LOCATION, "--set", "image.repository="], "image.repository is required"),
        ([*LOCATION, "--set", "bakupLocation.bucket=b"], "bakupLocation"),
        ([*LOCATION, "--set", "server.uploaderType=rustic"], "uploaderType"),
        ([*LOCATION, "--set", "server.defaultVolumesToRestic=true"], "needs nodeAgent.enabled"),
        (
            [*LOCATION, "--set", "credentials.content=a,credentials.existingSecret=b"],
            "exclude each other",
        ),
        ([*LOCATION, "--set", "backupLocation.provider=filesystem"], "provider cannot be filesystem"),
        ([*LOCATION, "--set", "backupLocation.provider=pinnace.io/filesystem"], "extraBackupLocations"),
        ([*LOCATION, "--set", "podLabels.deploy=mine"], "podLabels cannot set deploy"),
        ([*LOCATION, "--set", "server.labels.component=mine"], "server.labels cannot set component"),
        (
            [*LOCATION, "--set", "server.replicas=2,server.extraArgs={--leader-elect=false}"],
            "needs the election of a leader",
        ),
        ([*LOCATION, "--set", "server.replicas=two"], "replicas"),
        ([*LOCATION, "--set", "metrics.podMonitor.enabled=true"], "needs nodeAgent.enabled"),
    ],
    ids=[
        "bucket", "image", "misspelt", "no such value", "node agent", "two credentials", "filesystem",
        "filesystem by its name", "a label of pods", "an own label", "no election", "no number", "no agents",
    ],
)  # fmt: skip
@pytest.mark.found("L8", "L9")
def test_values_that_cannot_work_are_refused(helm: Helm, values: list[str], text: str) -> None:
    done = helm.run("template", "x", str(definitions.CHART), *SMALLEST, *values)

    assert done.returncode != 0
    assert text in done.stderr


def test_values_without_a_flag_of_install_have_their_effect(helm: Helm) -> None:
    rendered = by_name(
        helm.render(
            "velero",
            *(*LOCATION, "--set", "credentials.existingSecret=mine,imagePullSecrets={pull}"),
            *("--set", "nodeAgent.enabled=true"),
            *("--set-json", 'nodeAgent.tolerations=[{"operator":"Exists"}]'),
            *("--set", "server.extraArgs={--backup-workers=2},server.priorityClassName=high"),
            *("--set", "server.nodeSelector.a=b,nonAdmin.nodeSelector.c=d,nonAdmin.enabled=true"),
            *("--set", "nonAdmin.extraArgs={--require-approval}"),
            *("--set", "image.pullPolicy=Never,nodeAgent.podVolumePath=/k/pods"),
        )
    )  # fmt: skip
    server, agent, controller = (
        rendered[name]["spec"]["template"]["spec"]
        for name in ("Deployment/velero", "DaemonSet/node-agent", "Deployment/non-admin-controller")
    )

    assert "Secret/cloud-credentials" not in rendered
    for pod in (server, agent):
        assert {"name": "cloud-credentials", "secret": {"secretName": "mine"}} in pod["volumes"]
    for pod in (server, agent, controller):
        assert pod["imagePullSecrets"] == [{"name": "pull"}]
        assert pod["containers"][0]["imagePullPolicy"] == "Never"
    assert server["containers"][0]["args"] == ["server", "--uploader-type=kopia", "--backup-workers=2"]
    assert (server["nodeSelector"], server["priorityClassName"]) == ({"a": "b"}, "high")
    assert controller["containers"][0]["args"][-1] == "--require-approval"
    assert controller["nodeSelector"] == {"c": "d"}
    assert agent["tolerations"] == [{"operator": "Exists"}]
    assert {"name": "host-pods", "hostPath": {"path": "/k/pods"}} in agent["volumes"]


WORKLOAD = """
  labels: {argocd: x}
  annotations: {reloader: "true"}
  extraEnv: [{name: TZ, value: Europe/Berlin}]
  extraVolumes: [{name: nfs, nfs: {server: nfs.example.com, path: /backups}}]
  extraVolumeMounts: [{name: nfs, mountPath: /backups}]
  hostAliases: [{ip: 192.0.2.1, hostnames: [s3.example.com]}]
  dnsPolicy: None
  dnsConfig: {nameservers: [192.0.2.2]}
"""
MORE = f"""
backupLocation:
  labels: {{team: a}}
  annotations: {{note: b}}
  accessMode: ReadOnly
  validationFrequency: 5m0s
  backupSyncPeriod: 2m0s
nodeAgent:
  enabled: true{WORKLOAD}
nonAdmin:
  enabled: true{WORKLOAD}
server:{WORKLOAD}
  replicas: 2
  podDisruptionBudget: {{enabled: true, maxUnavailable: 50%}}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: zone
      whenUnsatisfiable: ScheduleAnyway
      labelSelector: {{matchLabels: {{deploy: velero}}}}
  initContainers: [{{name: mine, image: mine, volumeMounts: [{{name: plugins, mountPath: /target}}]}}]
plugins: [a/plugin:v1]
podLabels: {{azure.workload.identity/use: "true"}}
extraObjects:
  - {{apiVersion: v1, kind: ConfigMap, metadata: {{name: "of-{{{{ .Release.Namespace }}}}"}}, data: {{a: b}}}}
  - |
    apiVersion: v1
    kind: ConfigMap
    metadata: {{name: second}}
"""


@pytest.mark.found("L9", "L10")
def test_what_values_files_commonly_have_has_its_effect(helm: Helm, tmp_path: Path) -> None:
    path = tmp_path / "values.yaml"
    path.write_text(MORE)
    monitoring = "metrics.podMonitor.enabled=true,metrics.prometheusRule.enabled=true"
    groups = '[{"name":"mine","rules":[]}]'
    rendered = by_name(
        helm.render(
            "velero",
            *(*LOCATION, "-f", str(path), "--set", monitoring),
            *("--set-json", f"metrics.prometheusRule.extraGroups={groups}"),
        )
    )
    names = ("Deployment/velero", "DaemonSet/node-agent", "Deployment/non-admin-controller")
    values = yaml.safe_load(MORE)["server"]
    for name in names:
        workload, pod = rendered[name], rendered[name]["spec"]["template"]["spec"]
        assert workload["metadata"]["labels"] == {"component": "velero", "argocd": "x"}
        assert workload["metadata"]["annotations"] == {"reloader": "true"}
        assert pod["containers"][0]["env"][-1] == {"name": "TZ", "value": "Europe/Berlin"}
        assert pod["containers"][0]["volumeMounts"][-1] == values["extraVolumeMounts"][0]
        assert pod["volumes"][-1] == values["extraVolumes"][0]
        for member in ("hostAliases", "dnsPolicy", "dnsConfig"):
            assert pod[member] == values[member]
    server, agent = (rendered[name]["spec"]["template"] for name in names[:2])
    for template in (server, agent):
        assert template["metadata"]["labels"]["azure.workload.identity/use"] == "true"
    assert server["spec"]["topologySpreadConstraints"] == values["topologySpreadConstraints"]
    plugin, own = server["spec"]["initContainers"]
    assert plugin["securityContext"]["allowPrivilegeEscalation"] is False
    assert own == values["initContainers"][0]
    assert rendered["Deployment/velero"]["spec"]["replicas"] == 2
    budget = rendered["PodDisruptionBudget/velero"]["spec"]
    assert budget["maxUnavailable"] == "50%"
    assert budget["selector"]["matchLabels"].items() <= server["metadata"]["labels"].items()
    location = rendered["BackupStorageLocation/default"]
    assert location["metadata"]["labels"] == {"component": "velero", "team": "a"}
    assert location["metadata"]["annotations"] == {"note": "b"}
    members = ("accessMode", "validationFrequency", "backupSyncPeriod")
    assert [location["spec"][name] for name in members] == ["ReadOnly", "5m0s", "2m0s"]
    assert rendered["ConfigMap/of-velero"]["data"] == {"a": "b"}
    assert "ConfigMap/second" in rendered
    monitor = rendered["PodMonitor/node-agent"]["spec"]
    assert monitor["selector"]["matchLabels"].items() <= agent["metadata"]["labels"].items()
    assert monitor["podMetricsEndpoints"][0]["port"] == agent["spec"]["containers"][0]["ports"][0]["name"]
    expected = [*rules("velero")["groups"], *json.loads(groups)]
    assert rendered["PrometheusRule/velero"]["spec"]["groups"] == expected


@pytest.mark.parametrize("more", [False, True], ids=["everything", "more"])
async def test_the_api_server_knows_every_member(
    helm: Helm, client: KubeClient, namespace: str, velero_crds: None, folder: Path, more: bool
) -> None:
    values = in_folder(CASES["everything"][1], folder)
    if more:
        (folder / "values.yaml").write_text(MORE)
        values = [*LOCATION, "-f", str(folder / "values.yaml")]

    for obj in helm.render(namespace, *values, "--set", "nonAdmin.enabled=true"):
        resource = KINDS.get(obj["kind"]) or RESOURCES[obj["kind"]]
        try:
            answer = await client.request(
                "POST",
                resource.path(namespace if resource.namespaced else None),
                params={"dryRun": "All", "fieldValidation": "Strict"},
                body=json.dumps(obj).encode(),
            )
        except AlreadyExists:
            continue  # tests before this one have left the definition; its members are checked first
        assert json.loads(answer)["metadata"]["name"] == obj["metadata"]["name"]


@pytest.mark.found("L14")
async def test_helm_installs_upgrades_and_removes(
    helm: Helm, client: KubeClient, control_plane: ControlPlane, namespace: str, velero_crds: None
) -> None:
    chart = (str(definitions.CHART), "--namespace", namespace, *SMALLEST, *LOCATION)
    helm("install", "pinnace", *chart, kubeconfig=control_plane.kubeconfig)
    helm(
        "upgrade",
        "pinnace",
        *chart,
        "--set",
        "rbac.minimal=true,image.tag=v8",
        kubeconfig=control_plane.kubeconfig,
    )

    found = await client.get(DEPLOYMENTS, "velero", namespace)
    assert found["spec"]["template"]["spec"]["containers"][0]["image"].endswith(":v8")
    bindings = RESOURCES["ClusterRoleBinding"]
    with pytest.raises(NotFound):  # it gave all rights
        await client.get(bindings, f"velero-{namespace}")
    role = (await client.get(bindings, f"velero-{namespace}-minimal"))["roleRef"]["name"]
    assert role == f"velero-{namespace}"

    helm("uninstall", "pinnace", "--namespace", namespace, kubeconfig=control_plane.kubeconfig)
    for resource, name in (
        (DEPLOYMENTS, "velero"),
        (RESOURCES["ClusterRole"], f"velero-{namespace}"),
        (RESOURCES["ClusterRoleBinding"], f"velero-{namespace}"),
        (RESOURCES["ClusterRoleBinding"], f"velero-{namespace}-minimal"),
    ):
        with pytest.raises(NotFound):
            await client.get(resource, name, namespace)


async def test_self_service_comes_with_an_upgrade_and_its_definitions_stay(
    helm: Helm, connect: Connect, tmp_path: Path
) -> None:
    """In a cluster of its own: there is one such release in a cluster."""
    requests = manifests.crds()[0]["metadata"]["name"]
    with ControlPlane(tmp_path) as plane:
        client = await connect(plane)
        chart = ("pinnace", str(definitions.CHART), "--namespace", "velero", *SMALLEST, *LOCATION)
        helm("install", *chart, "--create-namespace", kubeconfig=plane.kubeconfig)
        with pytest.raises(NotFound):
            await client.get(CUSTOM_RESOURCE_DEFINITIONS, requests)

        helm("upgrade", *chart, "--set", "nonAdmin.enabled=true", kubeconfig=plane.kubeconfig)

        await client.get(CUSTOM_RESOURCE_DEFINITIONS, requests)
        found = await client.get(DEPLOYMENTS, manifests.DEPLOYMENT, "velero")
        assert found["spec"]["template"]["spec"]["serviceAccountName"] == manifests.NAME

        helm("uninstall", "pinnace", "--namespace", "velero", kubeconfig=plane.kubeconfig)

        await client.get(CUSTOM_RESOURCE_DEFINITIONS, requests)
        with pytest.raises(NotFound):
            await client.get(DEPLOYMENTS, manifests.DEPLOYMENT, "velero")
