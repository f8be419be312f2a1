"""Takes secrets out of the content of a support bundle. Pure.

A value that is recognised by its name (`password`, `token`, ...) or by its form (private keys, signed URLs,
tokens, texts as random as a key) is replaced, even in doubt. Where people write what they like - values of
environment variables and annotations, headers of probes, data of ConfigMaps - only what is known to be
harmless stays. So does a value that only says where a secret is (`secretName`, `credentialsFile`).
"""

import re
from itertools import pairwise
from typing import Any, Final

from pinnace.storage.providers import CREDENTIAL_VARIABLES

REDACTED: Final = "<redacted>"

_WORDS: Final = (
    r"passw(?:or)?d|passphrase|pwd|secret|token|credential|signature|cookie|authorization|"
    r"api[-_.]?key|access[-_.]?key|account[-_.]?key|private[-_.]?key|encryption[-_.]?key|sas[-_.]?key|"
    r"hook[-_.]?command"
)
_SENSITIVE = re.compile(rf"{_WORDS}|[a-z0-9_.-]key$", re.IGNORECASE)
_WHERE_IT_LIES = re.compile(
    r"(?:names?|refs?|files?|path|dir|kind|env[-_]?var|ttl|identity-secret)$", re.IGNORECASE
)

_SHOWN_VARIABLES: Final = re.compile(
    r"VELERO_\w+|PINNACE_\w+|(?:POD_|NODE_|VELERO_)?(?:NAMESPACE|NAME)|NODE_NAME|KUBERNETES_\w+|"
    rf"{'|'.join(CREDENTIAL_VARIABLES)}|"
    r"AWS_REGION|AWS_DEFAULT_REGION|AWS_PROFILE|AWS_CONFIG_FILE|AWS_ROLE_ARN|AWS_WEB_IDENTITY_TOKEN_FILE|"
    r"LD_LIBRARY_PATH|PATH|HOME|TMPDIR|TZ|LANG|LC_ALL|GOMAXPROCS|GOMEMLIMIT|GOGC|PYTHON\w+|"
    r"(?:HTTPS?|NO|ALL)_PROXY",
    re.IGNORECASE,
)
"""Environment variables whose values help and are no secrets. User names in URLs are taken out."""

_SHOWN_ANNOTATIONS: Final = re.compile(
    r"(?:[\w-]+\.)*(?:velero\.io|pinnace\.io)/[\w.-]+|"
    r"(?:[\w-]+\.)*kubernetes\.io/(?!last-applied)[\w.-]+|prometheus\.io/[\w.-]+"
)
_HARMLESS_ARGUMENT: Final = re.compile(
    r"--[a-z][a-z-]*(?:=.*)?|(?:[0-9]{1,6}(?:\.[0-9]{1,6})?(?:ns|us|ms|s|m|h)){1,4}|[0-9]{1,9}(?:[KMGT]i?)?|true|false",
    re.DOTALL,
)
_PROGRAM: Final = re.compile(
    r"/[\w./-]*|(?:ba|da|k|z)?sh|python[0-9.]*|psql|pg_dump(?:all)?|mysql(?:dump)?|mariadb(?:-dump)?|mongo(?:sh|dump)?|"
    r"redis-cli|fsfreeze|sync|echo|cat|env|touch|sleep|true|velero|pinnace"
)
"""A program: a path, or the name of a well-known one. Any other word could be a password."""
_SUBCOMMAND: Final = re.compile(rf"[a-z]{{1,16}}(?:-[a-z]{{1,16}})?|{_HARMLESS_ARGUMENT.pattern}", re.DOTALL)
_WRITTEN_BY_PEOPLE: Final = frozenset({"annotations"})
_NAMED_VALUES: Final = frozenset({"env", "httpHeaders"})

# A key is looked for only where a word begins, and no longer than this: a log line can be all base64.
_KEY = rf"(?<![\w.-])(?P<key>[\w.-]{{0,48}}?(?:{_WORDS})[\w.-]{{0,48}})"
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|\Z)", re.DOTALL
)
_USER_INFO = re.compile(r"(?<=://)[^/\s@\"'<>]+@")
# A query ends with the quoted text that it stands in; `\u0026`, as JSON writes `&`, is a part of it.
_QUERY = re.compile(r"(https?://[^\s\"'<>?]{1,4096})\?(?:[^\s\"'<>\\]|\\[^\s\"'<>])+", re.IGNORECASE)
_AUTHORIZATION = re.compile(r"(authorization\\*[\"']?\s*[:=]\s*\\*[\"']?)[^\"'\r\n]+", re.IGNORECASE)
_BEARER = re.compile(r"\b(bearer\s+)[\w.~+/=-]{8,}", re.IGNORECASE)
_ASSIGNMENT = re.compile(
    _KEY
    + r"(?P<sign>\\*[\"']?[ \t]*[:=][ \t]*)"
    + r"(?P<value>\"(?:[^\"\\]|\\.)*\"|'[^']*'|\\+\"(?:[^\"\\]|\\(?!\"))*\\+\"|[^\s,;&\"'\\})\]]+)",
    re.IGNORECASE,
)
_FLAG = re.compile(
    rf"(?<![\w.-])(?P<key>--?[\w.-]{{0,48}}?(?:{_WORDS})[\w.-]{{0,48}})(?P<sign>[ \t]+)(?P<value>[^\s-]\S*)",
    re.IGNORECASE,
)
_ACCESS_KEY_ID = re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b")
_JSON_WEB_TOKEN = re.compile(r"\beyJ[\w-]{5,}\.[\w-]{5,}\.[\w-]*")
_KNOWN_TOKEN = re.compile(
    r"\b(?:gh[opsur]_\w{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|xox[abeoprs]-[\w-]{8,}|hv[sb]\.[\w-]{16,}|"
    r"sk-[\w-]{16,}|AIza[\w-]{30,}|ya29\.[\w-]{16,}|npm_\w{30,}|dckr_pat_[\w-]{16,}|sha256~[\w-]{30,})"
)
_LONG_WORD = re.compile(r"(?<![\w+/-])[A-Za-z0-9+/_-]{20,}={0,2}(?![\w+/=-])")
_AWS_KEY_CHARACTERS = 40
_CHANGES_OF_A_KEY = 0.4
"""Changes between upper case, lower case and digits per character: random texts have 0.6, names 0.3."""


def is_sensitive(key: str) -> bool:
    """Whether a value of that name is a secret, rather than the place of one."""
    return bool(_SENSITIVE.search(key)) and not _WHERE_IT_LIES.search(key)


def redact_text(text: str) -> str:
    """The text without the secrets that can be recognised in it."""
    text = _PRIVATE_KEY.sub(REDACTED, text)
    text = _QUERY.sub(rf"\1?{REDACTED}", text)  # first: what takes the place of a user name ends a URL
    text = _USER_INFO.sub(f"{REDACTED}@", text)
    text = _AUTHORIZATION.sub(rf"\1{REDACTED}", text)
    text = _BEARER.sub(rf"\1{REDACTED}", text)
    text = _ASSIGNMENT.sub(_without_value, text)
    text = _FLAG.sub(_without_value, text)
    text = _ACCESS_KEY_ID.sub(REDACTED, text)
    text = _JSON_WEB_TOKEN.sub(REDACTED, text)
    text = _KNOWN_TOKEN.sub(REDACTED, text)
    return _LONG_WORD.sub(_without_key, text)


def _without_key(match: re.Match[str]) -> str:
    """Take out a word as random as a key; digests and ids, which have one case, are none."""
    word = match[0]
    classes = ["u" if one.isupper() else "l" if one.islower() else "d" for one in word if one.isalnum()]
    changes = sum(one != other for one, other in pairwise(classes))
    random = changes >= _CHANGES_OF_A_KEY * len(classes) or len(word) == _AWS_KEY_CHARACTERS
    return REDACTED if random and {"u", "l", "d"} <= set(classes) else word


def _without_value(match: re.Match[str]) -> str:
    key = match["key"]
    return match[0] if _WHERE_IT_LIES.search(key) else f"{key}{match['sign']}{REDACTED}"


def redact_object(value: Any) -> Any:
    """A copy of a JSON value without secrets.

    The arguments of commands, which often hold a password, and older forms of the object, which kubectl and
    API servers keep, are taken out too.
    """
    if isinstance(value, dict):
        return _redact_mapping(value)
    if isinstance(value, list):
        return _redact_words(value)
    return redact_text(value) if isinstance(value, str) else value


def _redact_mapping(value: dict[str, Any]) -> dict[str, Any]:
    hidden = ("data", "stringData", "binaryData") if value.get("kind") in ("Secret", "ConfigMap") else ()
    # An entry of `env`: the name is in another field than the value.
    named = value.get("name")
    names_secret = isinstance(named, str) and is_sensitive(named)
    result: dict[str, Any] = {}
    for key, member in value.items():
        if key == "managedFields":
            continue
        if key in hidden:
            result[key] = REDACTED
        elif key in _WRITTEN_BY_PEOPLE and isinstance(member, dict):
            result[key] = {name: _annotation(name, text) for name, text in member.items()}
        elif key in _NAMED_VALUES and isinstance(member, list):
            result[key] = [_named_value(each) for each in member]
        elif key == "args" and isinstance(member, list):
            result[key] = _redact_arguments(member)
        elif key == "command" or key.endswith("/command"):
            result[key] = _redact_command(member)
        elif is_sensitive(key) or (names_secret and key == "value"):
            result[key] = _without_text(member)
        else:
            result[key] = redact_object(member)
    return result


def _annotation(name: str, text: Any) -> Any:
    if name.endswith("/command") or is_sensitive(name) or not _SHOWN_ANNOTATIONS.fullmatch(name):
        return REDACTED
    return redact_object(text)


def _named_value(entry: Any) -> Any:
    """An environment variable or header: its value stays if it is known to be harmless."""
    if not isinstance(entry, dict):
        return REDACTED
    name, shown = str(entry.get("name", "")), redact_object(entry)
    if "value" in shown and not _SHOWN_VARIABLES.fullmatch(name):
        shown["value"] = REDACTED
    return shown


def _without_text(member: Any) -> Any:
    """A value under the name of a secret: texts are replaced; a structure says where it is, and stays."""
    if isinstance(member, list):
        return [_without_text(item) for item in member]
    return REDACTED if isinstance(member, str) else redact_object(member)


def _redact_command(command: Any) -> Any:
    """The program alone; its arguments may hold anything."""
    if not isinstance(command, list):
        return REDACTED
    # A whole command line may stand in the place of the program, or a single word that is none.
    program, *arguments = str(command[0]).split(maxsplit=1) if command else [""]
    shown = [redact_text(program) if _PROGRAM.fullmatch(program) else REDACTED] if command else []
    return [*shown, *([REDACTED] if arguments or len(command) > 1 else [])]


def _redact_arguments(arguments: list[Any]) -> list[Any]:
    """The flags with two dashes, a subcommand in front, and plain numbers and durations; no other word."""
    result = []
    for position, word in enumerate(_redact_words(arguments)):
        pattern = _SUBCOMMAND if position == 0 else _HARMLESS_ARGUMENT
        result.append(word if isinstance(word, str) and pattern.fullmatch(word) else REDACTED)
    return result


def _redact_words(words: list[Any]) -> list[Any]:
    """The members of a list; what follows a `--password` is the password."""
    result = []
    after_flag = False
    for word in words:
        is_text = isinstance(word, str)
        result.append(REDACTED if after_flag and is_text else redact_object(word))
        after_flag = is_text and word.startswith("-") and "=" not in word and is_sensitive(word)
    return result
