"""Regular expressions for the names of objects, matched in linear time. Pure.

Administrators write the expressions, and whoever made a backup the names, tenants too. Python's own engine
goes back and tries again: `([a-z]+-?)+$` takes hours for a name of forty characters, and the server stands
still. Here all ways through an expression are followed at once, so that a name takes at most as many steps as
it has characters, times the parts of the expression; what was followed once is remembered. The syntax is that
of RE2, which Velero has: no look-around and no references to groups.
"""

from typing import Final

from pinnace.restore.modifiers.expression_syntax import (
    WORD_CHARACTERS,
    Alternation,
    CharacterSet,
    Concatenation,
    ExpressionError,
    Repetition,
    SyntaxNode,
    TextAssertion,
    parse_expression,
)

_MAX_PARTS: Final = 2_000  # with each repetition written out
_MOST_KNOWN: Final = 10_000
_MOST_KNOWN_PARTS: Final = 1_000_000  # of all that is remembered for one expression, together


class _Ways:
    """A step that continues at any of several steps."""

    __slots__ = ("steps",)

    def __init__(self, *steps: int) -> None:
        self.steps = list(steps)


_MATCHED: Final = frozenset({-1})


class NameExpression:
    """A compiled expression.

    Attributes:
        pattern: as the user wrote it.

    Raises:
        ExpressionError: it is not valid, or too long.
    """

    __slots__ = ("_known", "_most_known", "_steps", "pattern")

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._steps: list[CharacterSet | TextAssertion | _Ways] = []
        self._compile(parse_expression(pattern))
        self._known: dict[tuple[frozenset[int], str, str], frozenset[int]] = {}
        self._most_known = min(_MOST_KNOWN, _MOST_KNOWN_PARTS // (len(self._steps) + 1))

    def search(self, text: str) -> bool:
        """Whether the expression matches a part of the text."""
        waiting, before = frozenset[int](), ""
        for position in range(len(text) + 1):
            after = text[position : position + 1]
            key = (waiting, before, after)
            if (known := self._known.get(key)) is None:
                if len(self._known) >= self._most_known:
                    self._known.clear()
                known = self._known[key] = self._advanced(*key)
            if known is _MATCHED:
                return True
            waiting = known
            # Assertions ask for no more than this.
            before = "a" if after in WORD_CHARACTERS else "\n" if after == "\n" else "-"
        return False

    def _advanced(self, waiting: frozenset[int], before: str, after: str) -> frozenset[int]:
        """The steps that wait for the character behind `after`, or `_MATCHED`."""
        begin, found, steps = [*waiting, 0], set[int](), self._steps
        while begin:
            number = begin.pop()
            if number in found:
                continue
            if number == len(steps):
                return _MATCHED
            found.add(number)
            step = steps[number]
            if isinstance(step, _Ways):
                begin += step.steps
            elif isinstance(step, TextAssertion) and step.holds(before, after):
                begin.append(number + 1)
        return frozenset(
            number + 1
            for number in found
            if after and isinstance(step := steps[number], CharacterSet) and after in step
        )

    def _compile(self, node: SyntaxNode) -> None:
        steps = self._steps
        if len(steps) > _MAX_PARTS:
            raise ExpressionError(f"it has more than {_MAX_PARTS} parts, with each repetition written out")
        match node:
            case Concatenation():
                for part in node.parts:
                    self._compile(part)
            case Alternation():
                steps.append(fork := _Ways())
                ends = []
                for branch in node.branches:
                    fork.steps.append(len(steps))
                    self._compile(branch)
                    steps.append(end := _Ways())
                    ends.append(end)
                for end in ends:
                    end.steps.append(len(steps))
            case Repetition():
                self._compile_repeat(node)
            case _:
                steps.append(node)

    def _compile_repeat(self, node: Repetition) -> None:
        steps = self._steps
        for _ in range(node.least):
            self._compile(node.part)
        if node.most is None:
            begin = len(steps)
            steps.append(fork := _Ways(begin + 1))
            self._compile(node.part)
            steps.append(_Ways(begin))
            fork.steps.append(len(steps))
            return
        forks = []
        for _ in range(node.most - node.least):
            steps.append(fork := _Ways(len(steps) + 1))
            forks.append(fork)
            self._compile(node.part)
        for fork in forks:
            fork.steps.append(len(steps))
