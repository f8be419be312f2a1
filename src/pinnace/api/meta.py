"""The parts of Kubernetes' own API that our objects embed: metadata, references, label selectors."""

from typing import Annotated

from msgspec import Struct

from pinnace.api.fields import NULLABLE, REQUIRED, Time


class OwnerReference(Struct, rename="camel", kw_only=True):
    """Names the object that owns this one; deleting the owner lets the cluster collect this object."""

    api_version: Annotated[str, REQUIRED] = ""
    kind: Annotated[str, REQUIRED] = ""
    name: Annotated[str, REQUIRED] = ""
    uid: Annotated[str, REQUIRED] = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Struct, rename="camel", kw_only=True):
    """The metadata of an object, as far as Pinnace uses it."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[OwnerReference] = []
    finalizers: list[str] = []


class ConfigReference(Struct, rename="camel", kw_only=True):
    """Names an object of the server's namespace that holds settings.

    Attributes:
        api_group: Group of the object; empty for the core group.
        kind: Kind of the object: configmap, in any case.
        name: Name of the object.
    """

    api_group: Annotated[str | None, NULLABLE] = None
    kind: Annotated[str, REQUIRED] = ""
    name: Annotated[str, REQUIRED] = ""


class ObjectReference(Struct, rename="camel", kw_only=True):
    """Points at one object of the cluster.

    Attributes:
        kind: Kind of the referent.
        namespace: Namespace of the referent.
        name: Name of the referent.
        uid: UID of the referent.
        api_version: API version of the referent.
        resource_version: Specific resourceVersion of the referent, if any is meant.
        field_path: A piece of the object, if not all of it is meant.
    """

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""
    field_path: str = ""


class LabelSelectorRequirement(Struct, rename="camel", kw_only=True):
    """One condition on the labels of an object.

    Attributes:
        key: The label that the condition is about.
        operator: In, NotIn, Exists or DoesNotExist.
        values: What In and NotIn compare with; empty for the others.
    """

    key: Annotated[str, REQUIRED] = ""
    operator: Annotated[str, REQUIRED] = ""
    values: list[str] = []


class LabelSelector(Struct, rename="camel", kw_only=True):
    """Conditions on the labels of an object. All must hold; an empty selector matches everything.

    Attributes:
        match_labels: Labels that must have exactly these values.
        match_expressions: Further conditions.
    """

    match_labels: dict[str, str] = {}
    match_expressions: list[LabelSelectorRequirement] = []
