"""Answers the completion scripts: `pinnace __complete SHELL ...`, which no help shows.

The answer's first line is `words`, `files` or `folders`; after `words` come the words that fit, each with a
tab and a line about it. An answer without a line offers nothing. `scripts` has the other side.
"""

import os
import sys
from collections.abc import Sequence

import click

from pinnace.cli.completion.candidates import Candidates, candidates
from pinnace.cli.completion.line import read_line
from pinnace.cli.completion.names import names_of


def main(root: click.Group, arguments: Sequence[str]) -> int:
    """Print the completions of a line. Returns 0 always: a shell has no use for an error here.

    Args:
        root: the tree of commands.
        arguments: of bash its COMP_WORDBREAKS and the line up to the cursor, after `bash`; of others
            (`zsh`, `fish`) the words after the program's name, the last one up to the cursor.
    """
    _be_silent()
    shell, *words = arguments or [""]
    breaks, head = "", ""
    if shell == "bash":
        breaks, line = [*words, "", ""][:2]
        words = split_line(line)[1:]
        head = _head(words[-1], breaks) if words else ""
    found = candidates(read_line(root, words), names_of)
    for line in answer(found, head):
        print(line)
    return 0


def answer(found: Candidates, head: str) -> list[str]:
    """The lines of an answer. `head` is the beginning of the word that the shell does not replace."""
    if found.paths is not None:
        return [str(found.paths)]
    if not found.words:
        return []
    return ["words", *(f"{word.removeprefix(head)}\t{text}" for word, text in found.words)]


def split_line(line: str) -> list[str]:
    """The words of a line as a shell divides them, the last one unfinished and perhaps empty."""
    import shlex

    end = "\0"  # marks the last word, also where it is empty; a line of a shell has no such character
    lexer = shlex.shlex(line.replace(end, "") + end, posix=True, punctuation_chars=False)
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    try:
        words.extend(lexer)
    except ValueError:  # an open quote, or a backslash at the end
        words.append(lexer.token)
    return [word.replace(end, "") for word in words]


def _head(word: str, breaks: str) -> str:
    """The part of a word that bash regards as separate words, since it also divides at `=` and `:`."""
    ends = [word.rfind(sign) + 1 for sign in breaks if not sign.isspace() and sign not in "\"'"]
    return word[: max(ends, default=0)]


def _be_silent() -> None:
    """Disconnect stdin and stderr from the terminal, for this process and the programs that it starts."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 2):
        os.dup2(nowhere, stream)
    sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115 - lives as long as the process
