"""`explain`: what the code of a warning, an error or a finding means. (docs/adr/115)"""

from collections.abc import Sequence

import click

from pinnace.cli.declaring.commands import command
from pinnace.cli.declaring.fields import arguments
from pinnace.cli.declaring.values import CODE
from pinnace.cli.errors import InvalidInput
from pinnace.cli.output.printing import DataOptions, encode


class ExplainOptions(DataOptions):
    """`explain`."""

    codes: Sequence[str] = arguments("[CODE]", CODE)


@command(
    "explain",
    ExplainOptions,
    short_help="Explain the code of a warning or an error.",
    examples=(
        ("Explain a code", "pinnace explain quota-exceeded"),
        ("List all codes", "pinnace explain"),
        ("For a program", "pinnace explain -o json"),
    ),
)
def explain(_ctx: click.Context, options: ExplainOptions) -> None:
    """Explain the code of a warning or an error: what it means, and what to do.

    Codes are in the logs and the results of backups and restores, in `describe -o json` and in the
    findings of the doctor. Without a code all of them are listed.
    """
    from pinnace.notices.codes import Code
    from pinnace.notices.explanations import EXPLANATIONS

    given, form = "".join(options.codes), options.output_format
    if given and given not in set(Code):
        from pinnace.api.values.near import did_you_mean, near_names

        near = did_you_mean(near_names(given, list(Code)))
        raise InvalidInput(f'there is no code "{given}"{near or "; without a code, `explain` lists all"}')
    chosen = [Code(given)] if given else sorted(Code)
    explained = [
        {"code": str(code), "meaning": EXPLANATIONS[code].meaning, "advice": EXPLANATIONS[code].advice}
        for code in chosen
    ]
    if form is not None:
        click.echo(encode(explained[0] if given else {"codes": explained}, form).rstrip())
        return
    for each in explained:
        # The facts of a notice stand as <object> in the advice.
        lines = (each["meaning"], each["advice"].replace("{", "<").replace("}", ">"))
        click.echo("\n  ".join(filter(None, (each["code"], *lines))))
