"""The options of each command as one struct, made of click's parameters."""

from collections.abc import Callable, Iterator, Sequence

import click
import pytest
from click.testing import CliRunner

from pinnace.cli.flags import (
    Command,
    KeyValueMap,
    NameArgument,
    boolean,
    comma_list,
    key_values,
    string_slice,
    takes,
)
from pinnace.cli.main import run
from pinnace.cli.program import cli
from pinnace.cli.structs import Struct, replace


class Options(Struct):
    names: Sequence[str]
    quiet: bool
    depth: int = 0


def command_with(*decorators: object) -> click.Command:
    def function(_ctx: click.Context, options: Options) -> None:
        """Print the options."""
        click.echo(repr(options))

    decorated = takes(Options)(function)
    for decorator in decorators:
        decorated = decorator(decorated)  # type: ignore[operator]
    return click.command(cls=Command)(decorated)


NAMES, QUIET = click.argument("names", nargs=-1), boolean("--quiet", help="Print less.")


class DeepOptions(Options):
    depth: int = 1
    sort: Callable[[list[str]], list[str]] = sorted


def test_a_struct_is_frozen_and_knows_its_fields() -> None:
    options = DeepOptions(names=["b", "a"], quiet=False)

    assert options == replace(DeepOptions(names=["b", "a"], quiet=True), quiet=False)
    assert options != Options(names=["b", "a"], quiet=False, depth=1)
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


def test_a_command_gets_its_parameters_as_one_struct() -> None:
    shown = CliRunner().invoke(command_with(NAMES, QUIET), ["a", "b", "--quiet"], obj=None)

    assert shown.output == "Options(names=('a', 'b'), quiet=True, depth=0)\n"


def test_a_field_with_a_default_can_have_a_parameter() -> None:
    shown = CliRunner().invoke(command_with(NAMES, QUIET, click.option("--depth", type=int)), ["--depth=2"])

    assert "depth=2" in shown.output


def test_repeated_flags_add_up_or_replace() -> None:
    class Lists(Struct):
        labels: dict[str, str]
        locations: list[str]
        kinds: list[str]

    seen: list[Lists] = []

    @click.command(cls=Command)
    @key_values("--labels", help="")
    @string_slice("--locations", help="")
    @comma_list("--kinds", help="")
    @takes(Lists)
    def command(_ctx: click.Context, options: Lists) -> None:
        seen.append(options)

    words = ["--labels=a=1,b=2", "--labels=b=3", "--locations=x,y", "--locations=z", "--kinds=p", "--kinds=q"]
    for each in (words, []):
        assert CliRunner().invoke(command, each).exit_code == 0

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


@pytest.mark.found("X5")
def test_every_list_has_the_short_flag_of_label_columns() -> None:
    for command in commands(cli):
        columns = [param for param in command.params if "--label-columns" in param.opts]
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
