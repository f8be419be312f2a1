"""The steps that a flow may decide on. One is carried out at a time; then everything is looked at anew."""

from dataclasses import dataclass, field

from pinnace.api.objects import JSONObject
from pinnace.kube.resources import APIResource
from pinnace.runtime.keys import Key


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStatus:
    """Store the status of the request.

    Attributes:
        requeue: the pass ends with one more to come.
        last: how the pass ends once the status is stored; None if there is more to do.
    """

    status: JSONObject
    requeue: bool = False
    last: "Finish | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetFinalizer:
    """Add our finalizer to the request, or remove it."""

    present: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """Make an object; that it is there already is as good, for the next look decides from what it is.

    Attributes:
        failed_status: the status of the request if the API server refuses; its conditions get the cause.
    """

    resource: APIResource
    namespace: str
    body: JSONObject
    failed_status: JSONObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """Change an object, in the version that was seen. `failed_status` as with Create."""

    resource: APIResource
    obj: JSONObject
    patch: JSONObject
    subresource: str | None = None
    failed_status: JSONObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Delete the very object that was seen; that it is gone is as good."""

    resource: APIResource
    obj: JSONObject
    requeue: bool = False

    @property
    def key(self) -> Key:
        """Of the object."""
        return Key.of(self.obj)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """The pass ends well.

    Attributes:
        requeue: look again, later each time.
        after_seconds: look again then.
        refusal: why nothing more is done until something changes; for the log.
    """

    requeue: bool = False
    after_seconds: float | None = None
    refusal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fail:
    """The pass ends with an error and is tried again, later each time."""

    error: str


Step = WriteStatus | SetFinalizer | Create | Patch | Delete | Finish | Fail

DONE = Finish()
REQUEUE = Finish(requeue=True)


@dataclass(slots=True)
class PassMemory:
    """What a pass remembers between its steps.

    Attributes:
        requeue: a step said that one more pass has to come.
        deleted: uids of what was deleted; a cache may still show it.
        wrote: something beside the request was written, so that caches may lag behind this pass.
        created, patched: resources of which something was, since the status was last written.
        made: what was created, by resource and name; a cache may not show it yet.
        absent: ids of which the API server said that there is no object.
        namespace_uid: of the request's namespace, once it was asked for.
    """

    requeue: bool = False
    deleted: frozenset[str] = frozenset()
    wrote: bool = False
    created: frozenset[str] = frozenset()
    patched: frozenset[str] = frozenset()
    made: dict[tuple[str, str], JSONObject] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()
    namespace_uid: str = ""
