"""Role bindings follow their service accounts into mapped namespaces. (docs/spec: RST 16)"""

from pinnace.api.objects import listed
from pinnace.plugins.builtin.subjects import mapped
from pinnace.plugins.protocols import ResourceSelector, RestoreItemInput, RestoreItemOutput


class _MapSubjects:
    """Replaces the namespace of each subject that the restore's mapping names, in all three forms."""

    async def execute(self, given: RestoreItemInput) -> RestoreItemOutput:
        """Map the subjects; the engine maps the binding's own namespace."""
        mapping = given.restore.spec.namespace_mapping
        subjects = listed(given.item, "subjects")
        if mapping and subjects:
            given.item["subjects"] = [
                mapped(each, mapping) if isinstance(each, dict) else each for each in subjects
            ]
        return RestoreItemOutput(item=given.item)


class MapClusterRoleBinding(_MapSubjects):
    """Maps the subjects of cluster role bindings."""

    name = "velero.io/cluster-role-bindings"

    async def applies_to(self) -> ResourceSelector:
        """ClusterRoleBindings."""
        return ResourceSelector(included_resources=("clusterrolebindings",))


class MapRoleBinding(_MapSubjects):
    """Maps the subjects of role bindings."""

    name = "velero.io/role-bindings"

    async def applies_to(self) -> ResourceSelector:
        """RoleBindings."""
        return ResourceSelector(included_resources=("rolebindings",))
