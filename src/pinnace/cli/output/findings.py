"""Groups the errors and warnings of a run for people: equal ones once, with their number. Pure.

They are read from the log of a backup or the results of a restore, which count as hostile input: lines that
do not parse are left out.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from pinnace.api.objects import JSONObject, mapping, objects, text
from pinnace.api.values.counts import counted, first_names
from pinnace.cli.output.layout import Sheet
from pinnace.notices.codes import Code
from pinnace.notices.explanations import advice_for
from pinnace.notices.notice import OWN_PART

SHOWN: Final = 5
"""How many distinct errors are shown at the end of a run."""
_SUBJECTS_SHOWN = 3
_TEXT_CHARACTERS = 600
_SEARCHED_CHARACTERS: Final = 4000
"""How much of a text is searched for advice: patterns with several gaps take hours on a long hostile one."""
_DISTINCT = 10_000
"""How many distinct texts are kept at most, so that a hostile file does not fill the memory."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One error or warning: its text, and the object that it is about, if that is known.

    Attributes:
        is_of_cluster: whether it is about a cluster-scoped object, which no mapping of namespaces concerns.
        code: of the notice; empty in what Velero and older versions stored.
        facts: of the notice, and whatever else its line has.
    """

    text: str
    subject: str = ""
    is_of_cluster: bool = False
    code: str = ""
    facts: Mapping[str, str] = {}


class MessageGroup(msgspec.Struct, kw_only=True):
    """Findings whose texts differ only in the name of their object.

    Attributes:
        advice: of the group; empty where that of the first finding is for all.
    """

    first: Message
    advice: str = ""
    count: int = 0
    texts: set[str] = msgspec.field(default_factory=set)
    subjects: list[str] = msgspec.field(default_factory=list)

    @property
    def text(self) -> str:
        """The text of the first."""
        return self.first.text

    @property
    def line(self) -> str:
        """The text, with how often it was found."""
        if self.count == 1:
            return self.text
        if len(self.texts) == 1:
            return f"{self.text} ({self.count} times)"
        return f"{self.text} (and {self.count - 1} more like it)"

    @property
    def about(self) -> str:
        """The objects that the text does not name: the first ones, and how many more there are."""
        unnamed = [subject for subject in self.subjects if subject.split(" ")[-1] not in self.text]
        if not unnamed:
            return ""
        return first_names(unnamed, _SUBJECTS_SHOWN)


def grouped(findings: Iterable[Message]) -> list[MessageGroup]:
    """The findings in groups of the same text, in the order of the first of each group."""
    groups: dict[str, MessageGroup] = {}
    for finding in findings:
        key = _without_names(finding)
        group = groups.get(key)
        if group is None:
            if len(groups) >= _DISTINCT:
                continue
            group = groups[key] = MessageGroup(first=finding)
        group.count += 1
        if len(group.texts) < 2:
            group.texts.add(finding.text)
        if finding.subject and finding.subject not in group.subjects[-1:]:
            group.subjects.append(finding.subject)
    return _with_rights_together(list(groups.values()))


_FORBIDDEN: Final = (
    r"is forbidden: User \"([^\"]{1,300})\" cannot (\w+) resource \"([^\"]{1,300})\""
    r"(?: in API group \"[^\"]{0,300}\")?(?: in the namespace \"([^\"]{1,300})\")?"
)
"""How an API server says that a right is missing; also at the cluster scope."""


_OTHER_KINDS: Final = ", or choose other kinds with --include-resources"


def _with_rights_together(groups: Sequence[MessageGroup]) -> list[MessageGroup]:
    """The groups; those about one missing verb of one user become one, whatever the kinds and namespaces."""
    lacking: dict[tuple[str, str], list[tuple[MessageGroup, str, str]]] = {}
    for group in groups:
        if found := re.search(_FORBIDDEN, group.text[:_SEARCHED_CHARACTERS]):
            lacking.setdefault((found[1], found[2]), []).append((group, found[3], found[4] or ""))
    merged, gone = dict[int, MessageGroup](), set[int]()
    for (user, verb), of_verb in lacking.items():
        if len(of_verb) < 2:
            continue
        kinds = list(dict.fromkeys(kind for _, kind, _ in of_verb))
        places = list(dict.fromkeys(place for _, _, place in of_verb if place))
        what = f"{len(kinds)} kinds: {first_names(kinds, _SUBJECTS_SHOWN)}" if len(kinds) > 1 else kinds[0]
        several = "s" if len(places) > 1 else ""
        where = f" (in namespace{several} {first_names(places, _SUBJECTS_SHOWN)})" if places else ""
        is_list = verb == "list" and len(kinds) > 1
        merged[id(of_verb[0][0])] = MessageGroup(
            first=Message(text=f'User "{user}" may not {verb} {what}{where}'),
            advice=f'Give "{user}" the right to {verb} them{_OTHER_KINDS if is_list else ""}.',
            count=1,
        )
        gone |= {id(group) for group, _, _ in of_verb[1:]}
    return [merged.get(id(group), group) for group in groups if id(group) not in gone]


def grouped_texts(texts: Iterable[object], *, exact: bool = False) -> list[str]:
    """The lines of a list of messages, as a description shows them.

    Args:
        exact: whether only equal texts become one line, so that each object is named.
    """
    if exact:
        counts: dict[str, int] = {}
        for text in map(str, texts):
            counts[text] = counts.get(text, 0) + 1
        return [text if count == 1 else f"{text} ({count} times)" for text, count in counts.items()]
    return [group.line for group in grouped(Message(text=str(text)) for text in texts)]


_OBJECT: Final = r"\b([a-z][a-z0-9-]*(?:\.[a-z0-9-]+)*)/((?:[^\s/\"':;,()]+/)?[^\s/\"':;,()]+)"
"""`deployments.apps/shop/web`: how messages name objects."""

_OBJECT_OF_SERVER: Final = (
    r'\b[a-z][a-z0-9.-]* "([^"]+)" (?=already exists|not found|is forbidden|is invalid)'
)
"""`configmaps "settings" already exists`: how an API server names objects."""


_NAMES: Final = r" \(\d+ to \d+: [^()]*\)"
"""` (101 to 200: a, b)`: how an error for many objects names a part of them."""


def _without_names(finding: Message) -> str:
    """The text with the names of its objects replaced by `*`, so that it is the same for each object."""
    text, names = re.sub(_NAMES, " (*)", finding.text), set()
    if finding.subject:
        names.add(finding.subject.split(" ")[-1])
    elif found := re.search(_OBJECT, text):
        names.add(found[2])
    if served := re.search(_OBJECT_OF_SERVER, text):
        names.add(served[1])
    names |= {name.rpartition("/")[2] for name in names}
    for name in sorted(names, key=len, reverse=True):
        if name:
            text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", "*", text)
    return text


def log_findings(lines: Iterable[str], level: str) -> Iterator[Message]:
    """The entries of one level (`error` or `warning`) in a log, which is logfmt or JSON."""
    plain, quoted = f"level={level} ", f'"level":"{level}"'
    for line in lines:
        if plain in line:
            fields = _logfmt(line)
        elif quoted in line and line.startswith("{"):
            fields = _json(line)
        else:
            continue
        if fields.get("level") == level and (message := fields.get("msg")):
            yield _finding(message, fields)


def _finding(message: str, fields: dict[str, str]) -> Message:
    cause = fields.get("error.message") or fields.get("error") or ""
    text = cause if message in _WITHOUT_INFORMATION else f"{message}: {cause}" if cause else message
    resource, name = fields.get("resource", ""), fields.get("name", "")
    place = f"{fields['namespace']}/{name}" if fields.get("namespace") else name
    subject = f"{resource} {place}".strip() if name else ""
    code = fields.get("code", "")
    return Message(text=_cut(text), subject=subject, code=code, facts=fields if code else {})


_WITHOUT_INFORMATION: Final = frozenset({"Error backing up item"})

_PAIR: Final = r'([^\s=]+)=("(?:[^"\\]|\\.)*"|\S*)'
_ESCAPE: Final = r"\\(x[0-9a-f]{2}|u[0-9a-f]{4}|.)"
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}


def _logfmt(line: str) -> dict[str, str]:
    return {key: _unquoted(value) for key, value in re.findall(_PAIR, line)}


def _unquoted(value: str) -> str:
    if not value.startswith('"'):
        return value

    def character(found: re.Match[str]) -> str:
        escape = found[1]
        if len(escape) > 1:
            return chr(int(escape[1:], 16))
        return _ESCAPED.get(escape, escape)

    return re.sub(_ESCAPE, character, value[1:-1])


def _json(line: str) -> dict[str, str]:
    import json

    try:
        entry = json.loads(line)
    except ValueError:
        return {}
    if not isinstance(entry, dict):
        return {}
    return {key: value for key, value in entry.items() if isinstance(value, str)}


def result_findings(results: object, severity: str) -> Iterator[Message]:
    """The messages of one severity (`error` or `warning`) of the results of a restore."""
    if not isinstance(results, dict):
        return
    known = set()
    for notice in objects(results, OWN_PART, "notices"):
        if notice.get("severity") == severity:
            known.add(text(notice, "message"))
            yield _noticed(notice)
    result = results.get(f"{severity}s")
    if not isinstance(result, dict):
        return
    namespaces = result.get("namespaces")
    lists = [(result.get("velero"), False), (result.get("cluster"), True)]
    lists += [(each, False) for each in namespaces.values()] if isinstance(namespaces, dict) else []
    for messages, is_of_cluster in lists:
        for message in messages if isinstance(messages, list) else ():
            # The others are Velero's, or beyond the limit of notices.
            if str(message) not in known:
                yield Message(text=_cut(str(message)), is_of_cluster=is_of_cluster)


def _noticed(notice: JSONObject) -> Message:
    facts = {name: said for name, said in mapping(notice, "facts").items() if isinstance(said, str)}
    return Message(text=_cut(text(notice, "message")), code=text(notice, "code"), facts=facts)


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _TEXT_CHARACTERS else f"{line[:_TEXT_CHARACTERS]}..."


class _Remedy(msgspec.Struct, frozen=True):
    """Advice about errors that match a pattern, whose groups it may use; `of` is a noun, or empty for all.

    `of_cluster` is the advice for cluster-scoped objects, if it is another.
    """

    pattern: str
    advice: str
    of: str = ""
    of_cluster: str = ""


_REMEDIES: Final[Sequence[_Remedy]] = tuple(
    _Remedy(pattern, advice, of, *of_cluster)
    for pattern, advice, of, *of_cluster in (
        (
            r"Error listing (?:the namespaces|namespaces for the patterns[^:]*): .*"
            r"is forbidden: User \"([^\"]*)\" cannot list",
            'Give "{0}" the right to list namespaces, or name those to back up with --include-namespaces.',
            "backup",
        ),
        (
            r"([a-z0-9.-]+) is forbidden: User \"([^\"]*)\" cannot list",
            'Give "{1}" the right to list {0}, or leave them out with --exclude-resources {0}.',
            "backup",
        ),
        (
            r"is forbidden: User \"([^\"]*)\" cannot (\w+) resource \"([^\"]+)\"",
            'Give "{0}" the right to {1} {2}.',
            "",
        ),
        (r"exceeded quota: ([a-z0-9.-]+)", "Raise the quota {0} or free what it counts.", "restore"),
        (
            r"admission webhook \"([^\"]+)\" denied the request",
            "The admission webhook {0} refused the objects: change its policy, or restore without them.",
            "restore",
        ),
        (
            r"ValidatingAdmissionPolicy '([^']+)' .*denied request",
            "The admission policy {0} refused the objects: change it, or the objects with"
            " --resource-modifier-configmap, or restore without them.",
            "restore",
        ),
        (
            r"violates PodSecurity \"([^\"]+)\"",
            "The namespace admits only pods of the level {0}: its label pod-security.kubernetes.io/enforce"
            " decides, or change the pods with --resource-modifier-configmap.",
            "restore",
        ),
        (
            r"Error executing hook: no such container: \"([^\"]+)\"",
            "The pod and its volumes are saved without this hook: name a container of the pod, not {0}.",
            "backup",
        ),
        (
            r"Error executing hook|(?:pre|post) hook .* failed",
            "Run the command of the hook in the container to see why it fails. Its pod is saved, unless a pre"
            " hook has `on-error: Fail`.",
            "backup",
        ),
        (
            r"Hook .{1,300}? in container \S+ (?:failed|expired|in pod \S+ not executed)",
            "Its pod is restored: run the command of the hook in the container yourself, where it is needed.",
            "restore",
        ),
        (
            r"is not restored: it was not saved",
            "This backup cannot bring it back, another may: `backup describe` lists the volumes that a backup"
            " has. With --without-volume-data it is a warning.",
            "restore",
        ),
        (
            r"failed calling webhook \"([^\"]+)\"",
            "The admission webhook {0} does not answer: start its server or remove its configuration.",
            "",
        ),
        (
            r"differ\w* (?:from|than) the backed-up version",
            "Update them with --existing-resource-policy update, or restore beside them with"
            " --namespace-mappings OLD:NEW.",
            "restore",
            "Update them with --existing-resource-policy update.",
        ),
        (
            r"No space left on device|no space left",
            "Free disk space: TMPDIR names the folder for temporary files.",
            "",
        ),
        (
            r"(?i)unauthorized|must be logged in",
            "The credentials were refused: they may have expired. Sign in again.",
            "",
        ),
        (
            r"connection refused|timed out|did not answer",
            "Check that the server named there can be reached.",
            "",
        ),
    )
)


def remedy(message: Message, noun: str) -> str:
    """Advice about an error of a `backup` or a `restore`; empty if there is none.

    A code decides. Patterns are for the texts of Velero and of older versions.
    """
    if message.code in set(Code):
        return _cut(advice_for(Code(message.code), message.facts))
    for each in _REMEDIES:
        if each.of in ("", noun) and (found := re.search(each.pattern, message.text[:_SEARCHED_CHARACTERS])):
            advice = each.of_cluster if message.is_of_cluster and each.of_cluster else each.advice
            return advice.format(*found.groups())
    return ""


def report(findings: Iterable[Message], noun: str) -> list[str]:
    """Lines for the first distinct errors: text and number, the objects, and advice."""
    groups = grouped(findings)
    lines: list[str] = []
    given = set()
    for group in groups[:SHOWN]:
        about = group.about
        lines.append(f"  {group.line}" + (f" [{about}]" if about else ""))
        advice = group.advice or remedy(group.first, noun)
        if advice and advice not in given:
            given.add(advice)
            lines.append(f"    {advice}")
    if len(groups) > SHOWN:
        lines.append(f"  ... and {counted(len(groups) - SHOWN, 'more distinct one')}")
    return lines


def result_block(sheet: Sheet, title: str, result: JSONObject, *, exact: bool) -> None:
    """Write errors or warnings of a restore: equal ones as one line, without `exact` also similar ones."""

    def block(title: str, indent: str, messages: Sequence[object]) -> None:
        _messages(sheet, title, indent, grouped_texts(messages, exact=exact))

    sheet.line(f"{title}:")
    block("\tVelero:", "\t", result.get("velero") or [])
    block("\tCluster:", "\t", result.get("cluster") or [])
    namespaces = result.get("namespaces") or {}
    if not namespaces:
        sheet.line("\tNamespaces: <none>")
        return
    sheet.line("\tNamespaces:")
    for namespace in sorted(namespaces):
        block(f"\t\t{namespace}:", "\t\t", namespaces[namespace] or [])


def _messages(sheet: Sheet, title: str, indent: str, messages: Sequence[str]) -> None:
    if not messages:
        # One tab more than a list with entries has: kept for programs that compare the text byte for byte.
        sheet.line(f"{title}\t\t<none>")
        return
    for position, message in enumerate(messages):
        sheet.line(f"{title}\t{message}" if not position else f"{indent}\t{message}")
