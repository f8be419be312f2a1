"""Decides which commands run in a restored pod: those of its annotations, or else of the Restore. Pure.

(docs/spec: RST 21, API 16.3, 16.4)
"""

from collections.abc import Mapping

import msgspec

from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.api.pod_hooks import FROM_ANNOTATION, container_names, parse_command
from pinnace.api.selection.names import IncludesExcludes
from pinnace.api.selection.selectors import Selector
from pinnace.api.values.durations import Duration
from pinnace.api.velero.backup import HookErrorMode
from pinnace.api.velero.restore import ExecRestoreHook, RestoreHooks, RestoreResourceHookSpec
from pinnace.hooks.errors import InvalidHooks


class HookSelector:
    """Selects the pods for a group of hooks of a Restore.

    Its lists of resources are not looked at: only pods have hooks.

    Raises:
        ValueError: the label selector is not valid.
    """

    def __init__(self, group: RestoreResourceHookSpec) -> None:
        self._namespaces = IncludesExcludes(group.included_namespaces, group.excluded_namespaces)
        self._labels = Selector.from_label_selector(group.label_selector)

    def matches(self, namespace: str, pod_labels: Mapping[str, str] | None) -> bool:
        """Whether a pod in this namespace with these labels is selected."""
        return self._namespaces.matches(namespace) and self._labels.matches(pod_labels)


class PodExecHook(msgspec.Struct, frozen=True, kw_only=True):
    """One command to run in one container of one pod.

    Attributes:
        source: `annotation` or `restoreSpec`.
        wait_for_ready: whether the container must be ready, not only running.
        container: the pod's first one if the hook names none; "" if the pod has none either.
        bad_durations: annotations whose value is not a duration, each with its value; they are ignored.
    """

    source: str
    name: str
    container: str
    command: tuple[str, ...]
    on_error: str
    exec_timeout: Duration
    wait_timeout: Duration
    wait_for_ready: bool = False
    bad_durations: tuple[tuple[str, str], ...] = ()

    @property
    def must_succeed(self) -> bool:
        """Whether its failure is an error of the restore; by default it is not. (docs/spec: API 16.3)"""
        return self.on_error == HookErrorMode.FAIL

    @property
    def wait_seconds(self) -> float | None:
        """How long to wait until its container runs; None for no limit."""
        return self.wait_timeout.total_seconds() if self.wait_timeout > Duration() else None


class ExecHookFinder:
    """Chooses the exec hooks of a Restore that apply to a pod.

    Raises:
        InvalidHooks: a hook's label selector is not valid.
    """

    def __init__(self, hooks: RestoreHooks) -> None:
        try:
            self._groups = [
                (group.name, HookSelector(group), [hook.exec for hook in group.post_hooks if hook.exec])
                for group in hooks.resources
            ]
        except ValueError as error:
            raise InvalidHooks(f"error parsing restore hooks: {error}") from error

    def hooks_of(self, pod: JSONObject) -> list[PodExecHook]:
        """The hooks of a pod as the API server returned it; selectors apply to its current namespace."""
        metadata = pod["metadata"]
        annotations = metadata.get("annotations") or {}
        first = next(iter(container_names(pod)), "")
        if annotations.get(labels.POST_RESTORE_HOOK_COMMAND):
            return [_annotated(annotations, first)]
        return [
            _specified(name, hook, first)
            for name, selector, hooks in self._groups
            if selector.matches(metadata.get("namespace", ""), metadata.get("labels"))
            for hook in hooks
        ]


def pod_wait_seconds(hooks: list[PodExecHook]) -> float | None:
    """How long to wait for a pod: the longest wait of its hooks. (docs/spec: RST 21)"""
    waits = [hook.wait_seconds for hook in hooks]
    limits = [wait for wait in waits if wait is not None]
    return max(limits) if limits and len(limits) == len(waits) else None


def _specified(name: str, hook: ExecRestoreHook, first: str) -> PodExecHook:
    return PodExecHook(
        source="restoreSpec",
        name=name,
        container=hook.container or first,
        command=tuple(hook.command),
        on_error=hook.on_error,
        exec_timeout=hook.exec_timeout,
        wait_timeout=hook.wait_timeout,
        wait_for_ready=bool(hook.wait_for_ready),
    )


def _annotated(annotations: Mapping[str, str], first: str) -> PodExecHook:
    bad: list[tuple[str, str]] = []

    def duration(annotation: str) -> Duration:
        text = annotations.get(annotation, "")
        try:
            return Duration.parse(text) if text else Duration()
        except ValueError:
            bad.append((annotation, text))
            return Duration()

    return PodExecHook(
        source="annotation",
        name=FROM_ANNOTATION,
        container=annotations.get(labels.POST_RESTORE_HOOK_CONTAINER) or first,
        command=tuple(parse_command(annotations[labels.POST_RESTORE_HOOK_COMMAND])),
        on_error=annotations.get(labels.POST_RESTORE_HOOK_ON_ERROR, ""),
        exec_timeout=duration(labels.POST_RESTORE_HOOK_EXEC_TIMEOUT),
        wait_timeout=duration(labels.POST_RESTORE_HOOK_WAIT_TIMEOUT),
        wait_for_ready=annotations.get(labels.POST_RESTORE_HOOK_WAIT_FOR_READY) == "true",
        bad_durations=tuple(bad),
    )
