"""Decides which hooks run for a pod: those of its annotations, or else of the backup's spec. Pure.

(docs/spec: BKP 7.1, API 15)
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Self

import msgspec

from pinnace.api.kinds import PODS
from pinnace.api.labels import (
    HOOK_COMMAND,
    HOOK_CONTAINER,
    HOOK_ON_ERROR,
    HOOK_TIMEOUT,
    LEGACY_BACKUP_HOOK_PREFIX,
    POST_BACKUP_HOOK_PREFIX,
    PRE_BACKUP_HOOK_PREFIX,
)
from pinnace.api.objects import JSONObject
from pinnace.api.pod_hooks import FROM_ANNOTATION, parse_command
from pinnace.api.selection.names import IncludesExcludes
from pinnace.api.selection.selectors import Selector
from pinnace.api.values.durations import Duration
from pinnace.api.velero.backup import BackupHooks, BackupResourceHook, ExecHook, HookErrorMode


class HookPhase(StrEnum):
    """When a hook runs: before the item's additional items are saved, or after."""

    PRE = "pre"
    POST = "post"


class PodHook(msgspec.Struct, frozen=True, kw_only=True):
    """One command to run for one pod. `source` is `annotation`, or `backupSpec` with the entry's name."""

    source: str
    name: str
    exec: ExecHook
    warnings: Sequence[str] = ()
    """Problems of the annotations that do not keep the hook from running."""


class _SpecHooks(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    namespaces: IncludesExcludes
    resources: IncludesExcludes
    selector: Selector
    hooks: Mapping[HookPhase, Sequence[BackupResourceHook]]

    def matches(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return (
            self.resources.matches(PODS.group_resource)
            and self.namespaces.matches(namespace)
            and self.selector.matches(labels)
        )


class HookChoice:
    """Chooses the hooks of a backup that apply to a pod."""

    def __init__(self, entries: Sequence[_SpecHooks]) -> None:
        self._entries = entries

    @classmethod
    def of(cls, hooks: BackupHooks, *, canonical: Callable[[str], str]) -> Self:
        """Read the spec's hooks.

        Raises:
            ValueError: a label selector is not valid; the backup fails. (docs/spec: BKP 3.2)
        """
        return cls(
            [
                _SpecHooks(
                    name=entry.name,
                    namespaces=IncludesExcludes(entry.included_namespaces, entry.excluded_namespaces),
                    resources=IncludesExcludes.resolved(
                        entry.included_resources, entry.excluded_resources, canonical
                    ),
                    selector=Selector.from_label_selector(entry.label_selector),
                    hooks={HookPhase.PRE: entry.pre, HookPhase.POST: entry.post},
                )
                for entry in hooks.resources
            ]
        )

    def for_pod(self, phase: HookPhase, pod: JSONObject) -> list[PodHook]:
        """The hooks of a phase, in execution order. An annotation replaces those of the spec."""
        metadata = pod.get("metadata", {})
        annotated = hook_of_annotations(phase, metadata.get("annotations") or {})
        if annotated is not None:
            return [annotated]
        namespace, labels = metadata.get("namespace", ""), metadata.get("labels") or {}
        return [
            PodHook(source="backupSpec", name=entry.name, exec=hook.exec)
            for entry in self._entries
            if entry.matches(namespace, labels)
            for hook in entry.hooks[phase]
            if hook.exec is not None
        ]

    def any_for(self, pod: JSONObject) -> bool:
        """Whether any hook applies to the pod."""
        return any(self.for_pod(phase, pod) for phase in HookPhase)


def hook_of_annotations(phase: HookPhase, annotations: Mapping[str, str]) -> PodHook | None:
    """The hook in a pod's annotations; the bare prefix is an old form of the pre hook."""
    prefixes = [PRE_BACKUP_HOOK_PREFIX, LEGACY_BACKUP_HOOK_PREFIX]
    if phase is HookPhase.POST:
        prefixes = [POST_BACKUP_HOOK_PREFIX]
    for prefix in prefixes:
        command = annotations.get(prefix + HOOK_COMMAND, "")
        if command:
            return _annotated(prefix, command, annotations)
    return None


def _annotated(prefix: str, command: str, annotations: Mapping[str, str]) -> PodHook:
    on_error = annotations.get(prefix + HOOK_ON_ERROR, "")
    text = annotations.get(prefix + HOOK_TIMEOUT, "")
    timeout, warnings = Duration(), []
    if text:
        try:
            timeout = Duration.parse(text)
        except ValueError:
            warnings.append(f"Unable to parse hook timeout {text!r}, using the default")
    if on_error not in ("", HookErrorMode.CONTINUE, HookErrorMode.FAIL):
        warnings.append(f"Unknown error mode {on_error!r} of a hook, using {HookErrorMode.CONTINUE}")
    words = parse_command(command)
    if command.startswith("[") and words == [command]:
        warnings.append("The hook's command is not a JSON array of strings, running it as one word")
    return PodHook(
        source="annotation",
        name=FROM_ANNOTATION,
        exec=ExecHook(
            container=annotations.get(prefix + HOOK_CONTAINER, ""),
            command=words,
            on_error=on_error if on_error in (HookErrorMode.CONTINUE, HookErrorMode.FAIL) else "",
            timeout=timeout,
        ),
        warnings=warnings,
    )
