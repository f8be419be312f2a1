"""Makes the Backup of a Schedule. Pure. (docs/spec: CLI 4.1, ADR 130)"""

import copy
from datetime import datetime

from pinnace.api import labels
from pinnace.api.codec import encode
from pinnace.api.meta import ObjectMeta
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.schedules.runs import backup_of
from pinnace.api.values.times import format_time
from pinnace.api.velero.backup import Backup
from pinnace.cli.build import check_metadata
from pinnace.cli.common.content_options import MetadataOptions


def backup_from_schedule(
    name: str, namespace: str, schedule: JSONObject, options: MetadataOptions, now: datetime
) -> JSONObject:
    """The Backup that the server would make of a Schedule, with all fields of its template.

    Labels and annotations given on the command line take precedence. With the name of a run it counts as the
    run that is due. (ADR 130)

    Args:
        name: empty for that of a run.
    """
    metadata = ObjectMeta(
        name=name or schedule["metadata"]["name"],
        namespace=namespace,
        labels=dict(options.labels),
        annotations=dict(options.annotations),
    )
    check_metadata(metadata)
    backup = copy.deepcopy(backup_of(schedule, now, None))
    made = backup["metadata"]
    note = f"{text(schedule, 'metadata', 'uid')} {format_time(now)}"
    requested = {} if name else {labels.RUN_REQUESTED: note}
    made["name"] = name or made["name"]
    made["labels"] |= dict(options.labels)
    if annotations := mapping(made, "annotations") | requested | dict(options.annotations):
        made["annotations"] = annotations
    return encode(Backup(), unsent=True) | backup | {"metadata": {"creationTimestamp": None, **made}}
