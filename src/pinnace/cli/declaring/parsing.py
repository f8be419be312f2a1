"""Reads words as the compatible command line does. (docs/spec: CLI 1.1)

Four habits of that command line differ from click's own and are kept here:

* a boolean takes a value only with `=` (`--wait`, `--wait=false`; `--wait false` is an argument);
* a short flag may take its value with `=` (`-o=json`);
* global flags are accepted before and after the command's name;
* a flag whose value may be left out (`--dry-run`) takes the next word only if that is one to choose from.
"""

import re
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import click

from pinnace.cli.declaring.fields import value_of
from pinnace.cli.declaring.types import Boolean
from pinnace.cli.declaring.values import CompletionSource
from pinnace.cli.words import BadFlagValue, as_written, flag_label, is_text

_DASHES: Final = "-\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
_TYPED: Final = "pinnace.typed"
"""Where a context keeps the words of the command, without the values behind `=`."""


@contextmanager
def words_for_click(ctx: click.Context, args: Sequence[str]) -> Iterator[list[str]]:
    """The words of a command in click's form, checked; names the command in errors while they are parsed."""
    ctx.meta[_TYPED] = [word.partition("=")[0] for word in args]
    try:
        words = _in_click_form(ctx.command.params, args)
        _check_text(ctx, words)
        yield words
    except click.UsageError as error:
        error.ctx = error.ctx or ctx  # click leaves it out of some
        raise


def _in_click_form(params: Sequence[click.Parameter], args: Sequence[str]) -> list[str]:
    """Rewrite words to the forms that click expects: `--flag` to `--flag=true`, `-o=json` to `-o json`.

    Otherwise a bare boolean would take the next word as its value, and `=` would become a part of the value.
    The word after a flag that needs a value is that value, whatever it looks like. After a flag whose value
    may be left out, as that of `--dry-run`, it is the value only if it is one of those to choose from.
    """
    options = {
        opt: param
        for param in params
        if isinstance(param, click.Option) and not param.is_flag
        for opt in param.opts
    }
    known = {opt for param in params for opt in param.opts if isinstance(param, click.Option)}
    bare = {opt: max(param.opts, key=len) for opt, param in options.items() if _is_bare(param)}
    words = deque(args)
    rewritten: list[str] = []
    while words:
        word = words.popleft()
        if word == "--":
            return [*rewritten, word, *words]
        if word in bare:
            rewritten.append(f"{bare[word]}=true")
        elif word in options and _stands_alone(options[word], words):
            rewritten.append(f"{word}={options[word].flag_value}")
        elif word in options:
            rewritten.append(word)
            if words:
                rewritten.append(words.popleft())
        elif word[2:3] == "=" and (short := word[:2]) in options:
            rewritten += [f"{bare[short]}{word[2:]}"] if short in bare else [short, word[3:]]
        else:
            _check_dashes(word, known)
            rewritten.append(word)
    return rewritten


def _check_dashes(word: str, flags: Collection[str]) -> None:
    """Refuse a flag whose dashes a text program has replaced by a long one. Raises click.UsageError."""
    rest = word.lstrip(_DASHES)
    given, name = word[: len(word) - len(rest)], rest.partition("=")[0]
    meant = f"-{name}" if len(name) == 1 else f"--{name}"
    if given.strip("-") and meant in flags:
        raise click.UsageError(
            f'"{word}" begins with a dash that is not the one of the keyboard, as copied texts have it: write'
            f" {meant}"
        )


def _stands_alone(option: click.Option, following: Sequence[str]) -> bool:
    """Whether a flag is given without its value, which may be left out."""
    if not isinstance(option.type, click.Choice) or not isinstance(option.flag_value, str):
        return False
    return not following or following[0] not in option.type.choices


def _is_bare(option: click.Option) -> bool:
    return isinstance(option.type, Boolean) and option.type.bare


def _check_text(ctx: click.Context, words: Sequence[str]) -> None:
    """Refuse a value that is no UTF-8, unless it is the name of a file.

    Args:
        ctx: the context of the command.
        words: its words in click's form.

    Raises:
        click.UsageError: one of the values is refused, or the words cannot be parsed.
    """
    if all(map(is_text, words)):
        return

    given, _rest, _order = ctx.command.make_parser(ctx).parse_args(list(words))
    for param in ctx.command.params:
        wrong = next((word for word in _texts(given.get(param.name or "")) if not is_text(word)), None)
        if wrong is None:
            continue
        problem = "it is not UTF-8"
        if not isinstance(param, click.Option):
            raise click.UsageError(f'invalid argument "{as_written(wrong)}": {problem}', ctx)
        if value_of(param).source not in (CompletionSource.FILES, CompletionSource.FOLDERS):
            raise BadFlagValue(as_written(wrong), flag_label(param), problem)


def _texts(value: object) -> Iterator[str]:
    """The words in what click's parser keeps of a flag or argument: one, or lists of them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Sequence):
        for each in value:
            yield from _texts(each)


def as_typed(ctx: click.Context, message: str) -> str:
    """The message with each flag that has several names under the one that the user typed."""
    typed = ctx.meta.get(_TYPED, [])
    for param in ctx.command.params:
        used = next((name for name in param.opts if name in typed), None)
        for name in param.opts if used else ():
            message = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", str(used), message)
    return message
