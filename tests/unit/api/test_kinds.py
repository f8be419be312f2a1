"""The table of kinds agrees with itself. A test of discovery compares it with an API server."""

from collections import Counter

from pinnace.api import kinds
from pinnace.api.definitions.velero import DEFINITIONS
from pinnace.api.nonadmin.definitions import DEFINITIONS as TENANT_DEFINITIONS

OURS = {kinds.BACKUPS.group, kinds.NON_ADMIN_BACKUPS.group}


def test_no_name_stands_for_two_kinds() -> None:
    words = Counter(word for kind in kinds.KINDS for word in {kind.plural, kind.singular, *kind.short_names})

    assert [word for word, count in words.items() if count > 1] == []


def test_every_kind_that_pinnace_defines_is_in_the_table() -> None:
    assert tuple(each.kind for each in DEFINITIONS) == kinds.VELERO
    tenant = {each.kind for each in TENANT_DEFINITIONS}
    assert tenant | {*kinds.VELERO} == {kind for kind in kinds.KINDS if kind.group in OURS}


def test_a_group_resource_is_the_plural_with_its_group() -> None:
    assert kinds.PODS.group_resource == "pods"
    assert kinds.DEPLOYMENTS.group_resource == "deployments.apps"
    assert kinds.DATA_UPLOADS.group_resource == "datauploads.velero.io"
