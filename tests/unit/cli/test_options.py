"""The options of each command as one struct, made of click's parameters."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import click
import pytest
from click.testing import CliRunner

from pinnace.cli.flags import Command, boolean, comma_list, key_values, string_slice, takes
from pinnace.cli.program import cli


@dataclass(frozen=True, kw_only=True)
class Options:
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


def test_a_command_gets_its_parameters_as_one_struct() -> None:
    shown = CliRunner().invoke(command_with(NAMES, QUIET), ["a", "b", "--quiet"], obj=None)

    assert shown.output == "Options(names=('a', 'b'), quiet=True, depth=0)\n"


def test_a_field_with_a_default_can_have_a_parameter() -> None:
    shown = CliRunner().invoke(command_with(NAMES, QUIET, click.option("--depth", type=int)), ["--depth=2"])

    assert "depth=2" in shown.output


@pytest.mark.parametrize(
    ("decorators", "name"),
    [((NAMES,), "quiet"), ((NAMES, QUIET, click.option("--loud")), "loud")],
    ids=["a field without parameter", "a parameter without field"],
)
def test_a_command_with_a_mismatched_struct_is_refused(decorators: tuple[object, ...], name: str) -> None:
    with pytest.raises(TypeError, match=rf"Options and the parameters of function differ in \['{name}'\]"):
        command_with(*decorators)


def test_repeated_flags_add_up_or_replace() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Lists:
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


def commands(group: click.Group) -> Iterator[click.Command]:
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        found = group.get_command(ctx, name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from commands(found)
        else:
            yield found


def test_no_command_takes_more_than_six_loose_parameters() -> None:
    """The others take one struct, which `Command` compares with their parameters when it is made."""
    loose = {
        command.name: names
        for command in commands(cli)
        if not hasattr(command.callback, "takes_options")
        and len(names := [param.name for param in command.params if param.expose_value]) > 6
    }

    assert loose == {}
