"""The steps that a flow may decide on. One is carried out at a time; then the facts are looked up again."""

from dataclasses import dataclass, field

from pinnace.api.objects import JSONObject
from pinnace.kube.resources import APIResource
from pinnace.runtime.keys import Key


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStatus:
    """Store the status of the request.

    Attributes:
        requeue: one more pass follows this one.
        last: ends the pass once the status is stored; None if there is more to do.
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
    """Create an object; one that exists already is no error, as the next step is decided from what it is.

    Attributes:
        failed_status: the status of the request if the API server refuses; its conditions get the cause.
    """

    resource: APIResource
    namespace: str
    body: JSONObject
    failed_status: JSONObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """Change an object in the version that was seen. `failed_status` is that of Create."""

    resource: APIResource
    obj: JSONObject
    patch: JSONObject
    subresource: str | None = None
    failed_status: JSONObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Delete the very object that was seen; one that is already gone is no error."""

    resource: APIResource
    obj: JSONObject
    requeue: bool = False

    @property
    def key(self) -> Key:
        """The key of the object."""
        return Key.of(self.obj)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """The pass ends well.

    Attributes:
        requeue: reconcile again, later each time.
        after_seconds: reconcile again after this time.
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
    """The memory of a pass between its steps.

    Attributes:
        requeue: a step asked for one more pass.
        deleted: uids of deleted objects; a cache may still show them.
        wrote: another object than the request was written, so that caches may lag behind this pass.
        created, patched: resources with objects created or patched since the status was last written.
        made: the objects that were created or patched, by resource and name; a cache may not show that yet.
        absent: ids without an object: the API server said so, or the id is new.
        namespace_uid: of the request's namespace, once it was looked up.
    """

    requeue: bool = False
    deleted: frozenset[str] = frozenset()
    wrote: bool = False
    created: frozenset[str] = frozenset()
    patched: frozenset[str] = frozenset()
    made: dict[tuple[str, str], JSONObject] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()
    namespace_uid: str = ""
