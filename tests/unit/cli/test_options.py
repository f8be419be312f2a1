"""The options of each command: one struct, whose fields declare its flags and arguments."""

import importlib
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import pinnace.cli
from pinnace.cli.declaring.commands import Command, command
from pinnace.cli.declaring.fields import (
    Options,
    Section,
    arguments,
    comma_list,
    flag,
    key_values,
    string_slice,
    switch,
    text,
)
from pinnace.cli.declaring.sections import flags_of
from pinnace.cli.declaring.types import KeyValueMap, NameArgument, Number
from pinnace.cli.declaring.values import NAMESPACES
from pinnace.cli.main import run
from pinnace.cli.program import cli
from pinnace.cli.structs import Struct, replace


class PlainOptions(Struct):
    names: Sequence[str]
    quiet: bool
    depth: int = 0


class DeepOptions(PlainOptions):
    depth: int = 1
    sort: Callable[[list[str]], list[str]] = sorted


def test_a_struct_is_frozen_and_knows_its_fields() -> None:
    options = DeepOptions(names=["b", "a"], quiet=False)

    assert options == replace(DeepOptions(names=["b", "a"], quiet=True), quiet=False)
    assert options != PlainOptions(names=["b", "a"], quiet=False, depth=1)
    assert hash(replace(options, names=())) == hash(DeepOptions(names=(), quiet=False))
    assert repr(replace(options, sort=list)).endswith("quiet=False, depth=1, sort=<class 'list'>)")
    assert options.sort(list(options.names)) == ["a", "b"]
    with pytest.raises(AttributeError, match=r"^DeepOptions\.depth cannot be changed$"):
        options.depth = 2  # type: ignore[misc]
    with pytest.raises(AttributeError, match=r"^DeepOptions\.depth cannot be removed$"):
        del options.depth
    with pytest.raises(TypeError, match=r"^DeepOptions: missing or unknown: quiet$"):
        DeepOptions(names=[])  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^DeepOptions: missing or unknown: deep$"):
        replace(options, deep=1)


class WalkOptions(Options, section=Section.WHAT, verb="walk"):
    """What to `verb`."""

    under: str = text(help="{verb} what is under this.")
    depth: int = flag("--depth", type=Number(whole=True), default=1, help="How deep to {verb}.")


class QuietOptions(Options):
    quiet: bool = switch("--quiet", help="Print less.")
    jobs: int = flag("--jobs", type=Number(whole=True), default=1, help="How many at once.")


class ListOptions(WalkOptions, QuietOptions, verb="list"):
    names: Sequence[str] = arguments("NAME [KIND]")
    namespaces: Sequence[str] = comma_list(
        "--namespaces", value=NAMESPACES, before="depth", section=Section.WHAT, help="Only these."
    )
    jobs: int = 4


def declared(options: type[Options], seen: list[Options]) -> Command:
    @command("list", options, short_help="List.")
    def list_(_ctx: click.Context, options: Options) -> None:
        """List what is there."""
        seen.append(options)

    return list_


def test_a_command_gets_the_fields_that_its_struct_declares() -> None:
    seen: list[Options] = []
    list_ = declared(ListOptions, seen)

    for words in (["a", "--depth=2", "--quiet", "--namespaces=x,y"], ["a", "b"]):
        shown = CliRunner().invoke(list_, words)
        assert shown.exit_code == 0, shown.output

    assert seen == [
        ListOptions(names=("a",), under="", depth=2, quiet=True, namespaces=["x", "y"]),
        ListOptions(names=("a", "b"), under="", depth=1, quiet=False, namespaces=[]),
    ]
    assert isinstance(seen[0], ListOptions)
    assert seen[0].jobs == 4


def test_flags_stand_in_the_order_of_the_structs_with_the_words_of_the_last() -> None:
    list_ = declared(ListOptions, [])

    shown = flags_of(list_, click.Context(list_, info_name="list"))

    assert shown[Section.WHAT] == [
        ("--under UNDER", "List what is under this."),
        ("--namespaces NAMESPACE,...", "Only these."),
        ("--depth NUMBER", "How deep to list."),
    ]
    # `jobs` has a plain value, and so is no flag any more.
    assert [name for name, _text in shown[Section.OPTIONS]] == ["--quiet", "--help"]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "requires at least 1 arg(s), only received 0: list NAME [KIND]"),
        (["a", "b", "c"], "accepts at most 2 arg(s), received 3: list NAME [KIND]"),
        (["a", "--jobs=2"], "No such option '--jobs'"),
    ],
)
def test_the_number_of_arguments_follows_from_how_the_usage_shows_them(
    words: list[str], problem: str
) -> None:
    shown = CliRunner().invoke(declared(ListOptions, []), words)

    assert shown.exit_code == 2
    assert problem in shown.output


def test_a_field_with_neither_a_flag_nor_a_value_is_refused() -> None:
    class Forgotten(QuietOptions):
        loud: bool

    with pytest.raises(TypeError, match=r"^Forgotten: no flag and no value: loud$"):
        declared(Forgotten, [])


def test_repeated_flags_add_up_or_replace() -> None:
    class Lists(Options):
        labels: Mapping[str, str] = key_values("--labels", help="")
        locations: Sequence[str] = string_slice("--locations", help="")
        kinds: Sequence[str] = comma_list("--kinds", help="")

    seen: list[Options] = []
    words = ["--labels=a=1,b=2", "--labels=b=3", "--locations=x,y", "--locations=z", "--kinds=p", "--kinds=q"]
    for each in (words, []):
        assert CliRunner().invoke(declared(Lists, seen), each).exit_code == 0

    assert seen == [
        Lists(labels={"a": "1", "b": "3"}, locations=["x", "y", "z"], kinds=["q"]),
        Lists(labels={}, locations=[], kinds=[]),
    ]


@pytest.mark.found("U9")
@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('k1=v1,"k2=a=b,c=d"', {"k1": "v1", "k2": "a=b,c=d"}),
        ('"k=a ""quoted"" word"', {"k": 'a "quoted" word'}),
        ('k={"a":1}', {"k": '{"a":1}'}),
        ("k=two\nlines,l=one", {"k": "two\nlines", "l": "one"}),
    ],
)
def test_an_entry_in_quotes_is_read_whole(text: str, values: dict[str, str]) -> None:
    assert KeyValueMap().parse(text) == values


@pytest.mark.found("U9")
@pytest.mark.parametrize("text", ['"k=v', 'a=b,"k=v', '"k=v"x,a=b'])
def test_a_quote_that_does_not_end_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a double quote is not closed, or text follows it"):
        KeyValueMap().parse(text)


@pytest.mark.found("S9", "S12")
def test_the_name_of_a_schedule_is_trimmed_and_not_empty(capsys: pytest.CaptureFixture[str]) -> None:
    """An unset variable of a script must not back up the whole cluster."""
    assert NameArgument("schedule").parse(" daily ") == "daily"
    for words in (["--from-schedule", ""], ["--from-schedule", " "], ["--from-schedule="]):
        assert run(["backup", "create", "b", *words]) == 1
        assert "leave the flag out (is a variable unset?)" in capsys.readouterr().err


WORK = re.compile(r'lazy_command\(\s*(?:"[\w-]+"|verb),\s*(\w+),\s*"([\w.]+):(\w+)"')


def test_the_work_of_a_command_takes_the_struct_that_its_declaration_makes() -> None:
    """The declaration names its work by a text, which no type checker reads."""
    checked = 0
    for path in Path(pinnace.cli.__file__).parent.rglob("*.py"):
        for struct, module, name in WORK.findall(path.read_text()):
            work = getattr(importlib.import_module(module), name)
            _ctx, *_given, taken = inspect.signature(work).parameters.values()
            assert getattr(taken.annotation, "__name__", taken.annotation) == struct, (path, name)
            checked += 1
    assert checked > 25


@pytest.mark.found("X5")
def test_every_list_has_the_short_flag_of_label_columns() -> None:
    for each in commands(cli):
        columns = [param for param in each.params if "--label-columns" in param.opts]
        assert all("-L" in param.opts for param in columns)
    with click.Context(cli) as ctx:
        group = cli.get_command(ctx, "backup")
        assert isinstance(group, click.Group)
        get = group.get_command(ctx, "get")
    assert get is not None
    assert any("-L" in param.opts for param in get.params)


def commands(group: click.Group) -> Iterator[click.Command]:
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        found = group.get_command(ctx, name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from commands(found)
        else:
            yield found
