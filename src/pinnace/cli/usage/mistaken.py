"""What to do instead, for words and flags that other programs know and this one does not. Pure.

A proposal is a command that does what was meant, or a name that differs by a typing error; there is none
where nothing is near: a random one would send the user elsewhere.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
from typing import Final

from pinnace.api import kinds
from pinnace.api.values.near import did_you_mean, near_names
from pinnace.cli.nouns import noun_of

_SYNONYMS: Final = {
    "list": ("get",),
    "ls": ("get",),
    "show": ("describe",),
    "info": ("describe", "version"),
    "inspect": ("describe",),
    "log": ("logs",),
    "rm": ("delete",),
    "remove": ("delete",),
    "destroy": ("delete",),
    "new": ("create",),
    "add": ("create",),
    "run": ("create",),
    "start": ("create",),
    "edit": ("set",),
    "update": ("set",),
    "location": ("backup-location", "snapshot-location"),
    "upgrade": ("install",),
    "init": ("install",),
    "snapshots": ("backup",),
    "snapshot": ("backup",),
    "view": ("show",),
    "cat": ("show",),
    "extract": ("show", "download"),
    "find": ("search",),
    "grep": ("search",),
    "compare": ("diff",),
    "check": ("verify",),
    "whoami": ("doctor",),
    "auth": ("doctor",),
    "config": ("client",),
    "disable": ("pause",),
    "suspend": ("pause",),
    "enable": ("unpause",),
    "resume": ("unpause",),
}
"""Words of other programs, and the commands here; only those that the group has are proposed."""

_OVERVIEW: Final = (
    "{doctor} checks the server and what it needs, {backup get --watch} follows the backups, and "
    "{schedule get} shows when the last one was made"
)
_EDIT: Final = "`kubectl edit` changes it, as backups and their like are objects of the cluster"
_KUBECTL: Final = (
    "`kubectl` does that, as backups and their like are objects of the cluster; `-o yaml` of {backup create} "
    "prints one for a file"
)
_NO_CANCEL: Final = (
    "it cannot be stopped: one that a command makes (--location) ends with Ctrl-C there, and one of a server "
    "goes on to its end"
)
_RESTORE: Final = "a backup is restored by {restore create --from-backup NAME}"
_COMMANDS: Final = {
    **dict.fromkeys(("status", "top", "health", "check", "diagnose"), _OVERVIEW),
    "backup status": "{backup describe NAME} shows it, and {backup get} that of all",
    "restore status": "{restore describe NAME} shows it, and {restore get} that of all",
    "schedule status": "{schedule describe NAME} shows it, and {schedule get} that of all",
    **dict.fromkeys(("rollback", "undo", "recover", "backup restore"), _RESTORE),
    "restore backup": _RESTORE,
    "schedule trigger": "{schedule run NAME} makes a backup of it now",
    "schedule stop": "{schedule pause NAME} stops it until {schedule unpause NAME}",
    "schedule start": "{schedule unpause NAME} lets it go on; {schedule run NAME} makes a"
    " backup of it now",
    **{
        f"{noun} {verb}": _NO_CANCEL
        for noun in ("backup", "restore")
        for verb in ("cancel", "stop", "abort", "kill")
    },
    **{
        f"{noun} {verb}": _EDIT
        for noun in ("backup", "restore", "schedule")
        for verb in ("edit", "set", "patch", "update")
    },
    **dict.fromkeys(("apply", "edit", "patch", "label", "annotate", "replace", "wait"), _KUBECTL),
}  # fmt: skip
"""By the words of the command. A command to run is in braces; NAME stands for the words that follow."""
_KINDS_OF_CLUSTER: Final = {
    word for kind in kinds.KINDS if not kind.noun for word in (kind.singular, kind.plural, *kind.short_names)
}
_OF_CLUSTER: Final = "`kubectl` has those of the cluster, and {backup ls BACKUP} lists what is in a backup"

_ONE_NAMESPACE: Final = "backups and their like are all in one namespace, that of the server, which -n names"
_FLAGS: Final = {
    "-A": _ONE_NAMESPACE,
    "--all-namespaces": _ONE_NAMESPACE,
    "create -A": "all namespaces are the default; --include-namespaces chooses some",
    "create --all-namespaces": "all namespaces are the default; --include-namespaces chooses some",
    "-f": "no file is read: `kubectl apply -f FILE` creates what is in one, and -o yaml prints what this "
    "command would send",
    "--filename": "no file is read: `kubectl apply -f FILE` creates what is in one, and -o yaml prints what "
    "this command would send",
    "logs -f": "a log is there once its run has ended; `create --wait` shows the run itself",
    "logs --follow": "a log is there once its run has ended; `create --wait` shows the run itself",
    "--verbose": "-v=6 prints the requests that the command makes",
    "--debug": "-v=6 prints the requests that the command makes",
    "--latest": "{backup get --sort-by .status.startTimestamp} shows the latest last",
    "--field-selector": "-l selects by labels, and -o json prints all fields for `jq`",
    "--tail": "the whole log is printed: pipe it into `tail`",
    "--context": "--kubecontext names the context of the kubeconfig",
    **dict.fromkeys(
        ("--cluster", "--user", "--server", "-s", "--token", "--as"),
        "--kubecontext chooses a context of the kubeconfig, which has the cluster and the user",
    ),
    **dict.fromkeys(
        ("create --namespaces", "create --ns"),
        "--include-namespaces chooses those of the objects, and -n is the namespace of the server",
    ),
    "--no-color": "--colorized=false, or NO_COLOR=1 in the environment",
    "--quiet": "--progress none shows no progress, and `>/dev/null` no output",
    "-q": "--progress none shows no progress, and `>/dev/null` no output",
}
"""By the flag, or by the last word of the command and the flag."""


Shown = Callable[[Sequence[str]], str]
"""Makes of a command's words what the user can paste: with the program, and the flags that were given."""


def instead_of_command(
    path: Sequence[str],
    word: str,
    following: Sequence[str],
    commands: Sequence[str],
    shown: Shown,
    elsewhere: Sequence[Sequence[str]] = (),
) -> str:
    """The end of the message about an unknown command.

    Args:
        path: the words of the group, without the program.
        word: the unknown word.
        following: the words behind it.
        commands: the commands of the group.
        elsewhere: the groups that have a command of that name.
    """
    names = list(takewhile(lambda each: not each.startswith("-"), following))
    if hint := _COMMANDS.get(" ".join((*path, word))):
        return f"; {_filled(hint, names[:1], shown)}"
    if word == "help":
        return did_you_mean([f"`{shown([word, *path, *names])}`"])
    if path and path[-1] in ("get", "describe", "delete") and word.lower() in _KINDS_OF_CLUSTER:
        return f"; {_filled(_OF_CLUSTER, [], shown)}"
    if names and names[0] in commands and not _mistyped(word, commands):
        return did_you_mean([f"`{shown([*path, *names, word])}`"])
    meant = [name for name in _SYNONYMS.get(word, ()) if name in commands]
    whole = [f"`{shown([*each, word, *names])}`" for each in elsewhere]
    if meant and path:
        return did_you_mean(meant)
    if meant or (whole and not path):
        return did_you_mean([*meant, *whole])
    if near := _mistyped(word, commands):
        return did_you_mean(near)
    if whole:
        return did_you_mean(whole)
    if list(path) == ["restore"]:
        return f"; if that is a backup, {_filled('write {restore create --from-backup NAME}', [word], shown)}"
    if path and path[-1] in ("get", "describe", "delete") and "," in word:
        return f"; name one kind: its kinds are {', '.join(commands)}"
    if path and path[-1] in ("get", "describe", "delete"):
        hint = f"its kinds are {', '.join(commands)}. For a backup of that name: {{{path[-1]} backup NAME}}"
        return f"; {_filled(hint, [word], shown)}"
    return f"; its commands are {', '.join(commands)}" if path else ""


def instead_of_flag(path: Sequence[str], flag: str, flags: Iterable[str]) -> str:
    """The end of the message about an unknown flag.

    Args:
        path: the words of the command, without the program.
        flags: the long flags that its help shows.
    """
    last = path[-1] if path else ""
    if last not in ("create", "logs"):  # as in `create backup`
        last = path[0] if path else ""
    if hint := _FLAGS.get(f"{last} {flag}") or _FLAGS.get(flag):
        return f"; {_filled(hint, [], lambda words: ' '.join(('pinnace', *words)))}"
    if not flag.startswith("--"):
        return ""
    known = [each.removeprefix("--") for each in flags]
    return did_you_mean(f"--{each}" for each in _mistyped(flag.removeprefix("--"), known))


def _mistyped(word: str, known: Iterable[str]) -> list[str]:
    """The words that a typing error makes of another: `plugin` is none of `login`, nor `repos` of `pods`.

    Few typing errors are in the first letter, so that words which begin otherwise have to be nearer.
    """
    near = near_names(word, known)
    return [each for each in near if each[:1] == word[:1].lower() or _differ_by_one(each, word.lower())]


def _differ_by_one(one: str, other: str) -> bool:
    """Whether a letter is missing, too much or another, or two neighbours are swapped."""
    from difflib import SequenceMatcher

    return SequenceMatcher(a=one, b=other).ratio() >= 1 - 2 / (len(one) + len(other))


_BRACES = re.compile(r"\{([^{}]*)\}")


def _filled(hint: str, names: Sequence[str], shown: Shown) -> str:
    """The hint with its commands written out, NAME replaced by the names that were given."""
    names = [_without_type(each) for each in names]

    def command(found: re.Match[str]) -> str:
        words = [
            each for word in found[1].split() for each in (names if names and word == "NAME" else [word])
        ]
        return f"`{shown(words)}`"

    return _BRACES.sub(command, hint)


def _without_type(word: str) -> str:
    resource, slash, name = word.partition("/")
    return name if slash and noun_of(resource) else word
