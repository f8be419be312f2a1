"""The flags of a command by section, each with the line about it in the help."""

import click

from pinnace.cli.declaring.fields import FlagOption, Section


def flags_of(command: click.Command, context: click.Context) -> dict[Section, list[tuple[str, str]]]:
    """The flags that are shown, by section: each with the word for its value, and its help.

    The flags of all commands come last.
    """
    sections: dict[Section, list[tuple[str, str]]] = {section: [] for section in Section}
    for param in command.get_params(context):
        if isinstance(param, click.Option) and not param.hidden:
            section = param.section if isinstance(param, FlagOption) else Section.OPTIONS
            sections[section].append(_line(param, context))
    return {section: lines for section, lines in sections.items() if lines}


def write_flags(command: click.Command, context: click.Context, formatter: click.HelpFormatter) -> None:
    """Write the flags in their sections."""
    for section, lines in flags_of(command, context).items():
        with formatter.section(section):
            formatter.write_dl(lines)


def _line(param: click.Option, context: click.Context) -> tuple[str, str]:
    """`--ttl DURATION`, and the sentence about it with an example of its value."""
    names, text = param.get_help_record(context) or ("", "")
    if getattr(param.type, "tristate", False) and param.metavar == "":
        names = f"{names.rstrip()}[=true|false]"
    text, bracket, extra = text.partition("  [")
    if isinstance(param, FlagOption) and param.value.like:
        text = f"{text.rstrip('.')} (such as {param.value.like})."
    return names.rstrip(), f"{text}{bracket}{extra}"
