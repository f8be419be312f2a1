"""Changes the objects of one restore by its resource modifiers, and notes which rules had an effect.

`restore.modifiers` decides what a rule makes of an object; here its problems become errors of the restore,
and a rule without an effect becomes a warning. (docs/spec: BEY 5.3)
"""

from collections import Counter

from pinnace.api.kinds import NAMESPACES
from pinnace.api.objects import JSONObject
from pinnace.archive.eventlog import EventLog
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice
from pinnace.restore.modifiers.idle import BackedUp, idle_warning
from pinnace.restore.modifiers.modifier import ResourceModifiers
from pinnace.restore.results import Results
from pinnace.restore.selection.reading import ItemRef


class Modifying:
    """The resource modifiers of one restore at work.

    Args:
        modifiers: None for none.
    """

    def __init__(self, modifiers: ResourceModifiers | None, log: EventLog) -> None:
        self._modifiers = modifiers
        self._log = log
        self._effective: set[int] = set()
        self._tested: Counter[int] = Counter()

    def modified(self, ref: ItemRef, item: JSONObject, results: Results) -> JSONObject:
        """The item after the rules; a rule that cannot be applied is an error in the results.

        Args:
            item: not changed; returned as it is if no rule applies.
        """
        if self._modifiers is None:
            return item
        done = self._modifiers.apply(ref.group_resource, ref.original_namespace, item)
        home = ref.name if ref.group_resource == NAMESPACES.group_resource else ref.target_namespace
        for problem in done.problems:
            results.errors.add(home, ref.notice(Code.MODIFIER_FAILED, f"error modifying {ref.id}: {problem}"))
        self._effective.update(done.rules, done.failed)
        self._tested.update(done.tested)
        if done.rules:
            self._log.info("Modified item", rules=", ".join(map(str, done.rules)), **ref.fields)
        return done.item

    def idle_rules(self, backup: BackedUp) -> list[Notice]:
        """The warnings for rules that changed no object."""
        rules = self._modifiers.rules if self._modifiers is not None else ()
        return [
            Notice(Code.MODIFIER_CHANGED_NOTHING, idle_warning(rule, self._tested[rule.number], backup))
            for rule in rules
            if rule.number not in self._effective
        ]
