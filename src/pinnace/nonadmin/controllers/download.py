"""The NonAdminDownloadRequest controller. (docs/spec: NAC 11)"""

from collections.abc import Iterable
from typing import Final

from pinnace.api.nonadmin.names import Origin
from pinnace.api.objects import JSONObject, text
from pinnace.kube.resources import BACKUPS, DOWNLOAD_REQUESTS, RESTORES
from pinnace.nonadmin.caches import BY_TARGET, in_namespace
from pinnace.nonadmin.controllers.parts import Wiring, enqueue_keys
from pinnace.nonadmin.events import KeysOf, origin_keys
from pinnace.nonadmin.loading import DownloadFlow
from pinnace.nonadmin.objects import NON_ADMIN_BACKUPS, NON_ADMIN_DOWNLOADS, NON_ADMIN_RESTORES
from pinnace.runtime.controller import Controller
from pinnace.runtime.keys import Key

NAME: Final = "nonadmin-download"


def controller(parts: Wiring) -> Controller:
    """The NonAdminDownloadRequest controller."""
    made = parts.controller(NAME, DownloadFlow(parts.context))
    own = origin_keys(Origin.DOWNLOAD)

    def answered(download: JSONObject) -> Iterable[Key]:
        return own(download) if text(download, "status", "phase") == "Processed" else ()

    parts.watch_requests(made, NON_ADMIN_DOWNLOADS)
    parts.watch(made, DOWNLOAD_REQUESTS, answered)
    # The object that such a request names may be created after it.
    requests = parts.informers[NON_ADMIN_DOWNLOADS]

    def named(obj: JSONObject) -> Iterable[Key]:
        return [
            Key.of(non_admin_download)
            for non_admin_download in requests.by_index(BY_TARGET, in_namespace(*Key.of(obj)))
        ]

    for velero_kind, origin, resource in (
        (BACKUPS, Origin.BACKUP, NON_ADMIN_BACKUPS),
        (RESTORES, Origin.RESTORE, NON_ADMIN_RESTORES),
    ):
        parts.informers[resource].add_handlers(on_add=enqueue_keys(made, named))
        of = origin_keys(origin)

        def named_by_origin(obj: JSONObject, of: KeysOf = of) -> Iterable[Key]:
            keys = [in_namespace(*key) for key in of(obj)]
            return [
                Key.of(non_admin_download)
                for key in keys
                for non_admin_download in requests.by_index(BY_TARGET, key)
            ]

        parts.informers[velero_kind].add_handlers(on_add=enqueue_keys(made, named_by_origin))
    return made
