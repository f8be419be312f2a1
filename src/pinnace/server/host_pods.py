"""Checks that the agent's directory of pods is that of its node's kubelet. (docs/spec: PVL 3.2)"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from pinnace.aio.blocking import in_thread
from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import PODS
from pinnace.runtime.logfields import get_logger
from pinnace.server.checks import StartupError

log = get_logger(__name__)


DEFAULT_DIRECTORY: Final = Path("/host_pods")
_MIRROR: Final = "kubernetes.io/config.mirror"


async def check_host_pods(client: KubeClient, node: str, directory: Path) -> None:
    """Check that each running pod of the node has its directory. Raises StartupError, KubeError."""
    # Pods first: those that run have their directories by then, and one that starts later is not looked for.
    selector = f"spec.nodeName={node},status.phase=Running"
    pods = [
        item.decode()
        async for page in client.list_pages(PODS, field_selector=selector, consistent=True)
        for item in page.items
    ]
    try:
        present = await in_thread(_directories, directory)
    except OSError as error:
        raise StartupError(
            f"could not read pod volumes host path: {directory}: {error.strerror}: the pods subdirectory of "
            "the kubelet root directory must be mounted there"
        ) from error
    missing = missing_directories(pods, present)
    for name in missing:
        log.debug("A running pod has no directory", pod=name)
    if missing:
        raise StartupError(
            "unexpected directory structure for host-pods volume, ensure that the host-pods volume "
            f"corresponds to the pods subdirectory of the kubelet root directory: {directory} has no "
            f"directory for {len(missing)} of {len(pods)} running pods, {missing[0]} among them"
        )


def missing_directories(pods: Iterable[JSONObject], present: Sequence[str]) -> list[str]:
    """The pods without a directory. Its name is the uid, for static pods the hash of the definition. Pure."""
    there = set(present)
    missing = []
    for pod in pods:
        metadata = pod["metadata"]
        directory = (metadata.get("annotations") or {}).get(_MIRROR) or metadata["uid"]
        if directory not in there:
            missing.append(f"{metadata['namespace']}/{metadata['name']}")
    return missing


def _directories(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir() if path.is_dir()]
