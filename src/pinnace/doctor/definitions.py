"""Checks the custom resource definitions of the server, and their versions."""

from pinnace.api.definitions.crds import crd_manifests
from pinnace.api.objects import JSONObject, mapping
from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.doctor.findings import Finding, listed, ok, problem, warning
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from pinnace.notices.codes import Code

CHECK = "definitions"
_LOCATIONS = "backupstoragelocations.velero.io"
_DOWNLOADS = "downloadrequests.velero.io"
_TO_TARGET = ("schema", "openAPIV3Schema", "properties", "spec", "properties", "target", "properties")
_VELERO = "velero"
"""The name of Velero's image."""


async def read_definitions(client: KubeClient) -> list[JSONObject]:
    """All definitions of the cluster that are Velero's by name. Raises KubeError."""
    found = await client.list_all(CUSTOM_RESOURCE_DEFINITIONS)
    return [crd for crd in found if str(crd["metadata"]["name"]).endswith(".velero.io")]


def judge(definitions: list[JSONObject]) -> list[Finding]:
    """Findings about definitions that are missing or not established, and versions that are not served."""
    remedy = "run `install --crds-only`, which adds definitions and changes no object"
    found = {crd["metadata"]["name"]: crd for crd in definitions}
    missing, outdated, unready = [], [], []
    for wanted in crd_manifests():
        name = wanted["metadata"]["name"]
        crd = found.get(name)
        if crd is None:
            missing.append(name)
            continue
        served = {
            version.get("name")
            for version in mapping(crd, "spec").get("versions") or []
            if version.get("served")
        }
        outdated += [
            f"{name} {version['name']}"
            for version in wanted["spec"]["versions"]
            if version["name"] not in served
        ]
        conditions = mapping(crd, "status").get("conditions") or []
        if any(one.get("type") == "Established" and one.get("status") != "True" for one in conditions):
            unready.append(name)
    if len(missing) == len(crd_manifests()):
        return [
            problem(
                CHECK,
                "no definition of velero.io is installed",
                f"{remedy}; or work without a server (--location)",
                code=Code.DEFINITIONS_MISSING,
            )
        ]
    findings = []
    if missing:
        findings.append(
            problem(
                CHECK, f"definitions are missing: {listed(missing)}", remedy, code=Code.DEFINITIONS_MISSING
            )
        )
    if outdated:
        findings.append(
            problem(
                CHECK, f"versions are not served: {listed(outdated)}", remedy, code=Code.DEFINITIONS_OUTDATED
            )
        )
    if unknown := _unknown_files(found.get(_DOWNLOADS)):
        findings.append(
            warning(
                CHECK,
                f"the definition {_DOWNLOADS} does not know {listed(unknown)}: looking into a backup through"
                " the server reads its whole tarball",
                "run `pinnace install --crds-only --apply`, which widens definitions and changes no object",
                code=Code.DEFINITIONS_NARROW,
            )
        )
    if unready:
        findings.append(
            warning(
                CHECK,
                f"not established: {listed(unready)}",
                "`kubectl describe crd` says why, often a clash of names",
                code=Code.DEFINITIONS_NOT_ESTABLISHED,
            )
        )
    return findings or [ok(CHECK, f"all {len(crd_manifests())} definitions of velero.io are served")]


def _unknown_files(crd: JSONObject | None) -> list[str]:
    """The kinds of files that a definition of DownloadRequests refuses, of those that Pinnace asks for."""
    if crd is None:
        return []
    allowed: set[str] = set()
    for version in mapping(crd, "spec").get("versions") or []:
        target = mapping(version, *_TO_TARGET)
        if "enum" not in mapping(target, "kind"):
            return []
        allowed.update(target["kind"]["enum"])
    return [kind.value for kind in DownloadTargetKind if kind not in allowed]


def judge_for_velero(definitions: list[JSONObject], image: str) -> list[Finding]:
    """A finding if a Velero server runs here whose locations would never become Available.

    Velero writes the status of a location together with the location. A definition that keeps the status
    apart, as that of Pinnace and of Velero 1.6 does, drops it without an error.

    Args:
        image: of the server's Deployment; empty if there is none.
    """
    if image.partition("@")[0].rpartition("/")[2].partition(":")[0] != _VELERO:
        return []
    apart = any(
        "status" in mapping(version, "subresources")
        for crd in definitions
        if crd["metadata"]["name"] == _LOCATIONS
        for version in mapping(crd, "spec").get("versions") or []
    )
    if not apart:
        return []
    return [
        problem(
            CHECK,
            f"the server is Velero ({image}), and the definition {_LOCATIONS} keeps the status of locations"
            " apart: later versions than 1.6 cannot write it, so that no location becomes Available",
            "`velero install --crds-only --dry-run -o yaml | kubectl apply -f -` installs Velero's own"
            " definitions and changes no object; Pinnace works with them too",
            code=Code.DEFINITIONS_NOT_VELEROS,
        )
    ]
