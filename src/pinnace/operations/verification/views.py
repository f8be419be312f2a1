"""The cluster of a run without a server, opened to look at snapshots."""

from contextlib import AsyncExitStack

from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import KubeError
from pinnace.operations.local import InvalidRun, LocalRun
from pinnace.operations.snapshots import snapshotters_of
from pinnace.operations.verification.volumes import ClusterView, NoCluster


async def local_view(run: LocalRun, stack: AsyncExitStack, *, ask_in: str = "") -> ClusterView:
    """What the cluster serves, and its snapshot locations with their plugins, until the stack is closed.

    Args:
        ask_in: as in `look_up_csi`.

    Raises:
        NoCluster: it cannot be asked, or a plugin cannot be loaded.
    """
    try:
        discovery = await Discovery.load(run.client)
        context = await stack.enter_async_context(run.open(discovery, builtin=()))
    except (KubeError, InvalidRun) as error:
        raise NoCluster(str(error)) from error
    return ClusterView(
        client=run.client, discovery=discovery, snapshotters=snapshotters_of(context), ask_in=ask_in
    )
