"""The work of `doctor`: makes the checks and prints their findings."""

from collections.abc import Sequence

import click

from pinnace.api.selection.names import EVERYTHING
from pinnace.api.selection.validation import namespace_problem
from pinnace.api.values.counts import counted
from pinnace.cli.connect import caller, run_async, settings_of
from pinnace.cli.errors import ExitCode, InvalidInput
from pinnace.cli.guard import printable
from pinnace.cli.output.layout import echo_laid_out
from pinnace.cli.output.narrow import terminal_columns, wrapped
from pinnace.cli.output.printing import encode
from pinnace.doctor.examining import Subject, examine
from pinnace.doctor.findings import Finding, Level


def report(ctx: click.Context, namespaces: Sequence[str], form: str | None) -> int:
    """Run all checks and print the findings. Returns the exit code."""
    settings = settings_of(ctx)
    namespaces = [name for name in namespaces if name != EVERYTHING]
    for name in namespaces:
        if wrong := namespace_problem(name):
            raise InvalidInput(f"--include-namespaces: {wrong}")
    subject = Subject(
        kubeconfig=settings.kubeconfig,
        context=settings.kubecontext,
        namespace=settings.namespace,
        location=settings.location,
        namespaces=namespaces,
        patience_seconds=settings.api_timeout_seconds,
    )
    findings = run_async(examine(subject, caller()))
    problems = [finding for finding in findings if finding.level is Level.PROBLEM]
    if form is not None:
        printed = {"healthy": not problems, "findings": [finding.as_json() for finding in findings]}
        click.echo(encode(printed, form).rstrip("\n"))
    else:
        echo_laid_out(
            _text(findings, colour=settings.colour, columns=terminal_columns()) + "\n", colour=settings.colour
        )
    return ExitCode.ERROR if problems else ExitCode.OK


_COLOURS = {Level.OK: "green", Level.SKIPPED: "bright_black", Level.WARNING: "yellow", Level.PROBLEM: "red"}


def _text(findings: Sequence[Finding], *, colour: bool, columns: int | None = None) -> str:
    lines = []
    width = max(len(finding.check) for finding in findings)
    indent = 8 + 1 + width + 2
    for finding in findings:
        level = f"{finding.level:<8}"
        shown = click.style(level, fg=_COLOURS[finding.level]) if colour else level
        lines.append(f"{shown} {finding.check:<{width}}  {wrapped(_one_line(finding.text), indent, columns)}")
        if finding.remedy and finding.level is not Level.OK:
            lines.append(f"{'':{indent}}-> {wrapped(_one_line(finding.remedy), indent + 3, columns)}")
    counts = {level: sum(finding.level is level for finding in findings) for level in Level}
    lacking = sum(finding.refused for finding in findings)
    lines.append("")
    lines.append(
        f"{counted(counts[Level.PROBLEM], 'problem')}, {counted(counts[Level.WARNING], 'warning')}, "
        f"{counted(counts[Level.OK], 'check')} passed, {counts[Level.SKIPPED]} skipped"
        + (f" ({lacking} for lack of rights)." if lacking else ".")
    )
    return "\n".join(lines)


def _one_line(text: str) -> str:
    return printable(" ".join(text.split()))
