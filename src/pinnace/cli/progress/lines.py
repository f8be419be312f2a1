"""The lines that show the progress of a run, each within the columns of a terminal. Pure.

A narrow terminal gets less: bars are left out first, then rates, then the ends of names.
"""

from collections.abc import Iterator
from typing import Final

from pinnace.api.values.counts import counted
from pinnace.cli.guard import printable
from pinnace.cli.output.cells import size
from pinnace.cli.progress.state import Amount, State

BAR_WIDTH: Final = 30
BLOCKS: Final = "█░"
PLAIN_BLOCKS: Final = "#-"

_LINES_OF_A_SORT = 6
_BAR_COLUMNS = 60
_LEAST_BAR = 10
_DETAIL_BAR = 20
_SPACES = str.maketrans("\t\n\r", "   ")


def numbers(state: State) -> str:
    """`1,234 of at least 2,511 items`."""
    total = max(state.done, state.total)
    if not total:
        return "0 items so far" if state.at_least else "0 items"
    bound = "at least " if state.at_least else "about " if state.is_estimate and state.done < total else ""
    return f"{state.done:,} of {bound}{counted(total, 'item')}"


def main_line(what: str, state: State, columns: int, blocks: str) -> str:
    """The line with the numbers of the whole run. A lower bound has no bar: it would be full too soon."""
    eta = state.eta_seconds
    facts = [
        f"{state.rate:,.0f}/s" if state.rate >= 1 else "",
        clock(state.seconds),
        f"ETA {clock(eta)}" if eta is not None else "",
    ]
    text = numbers(state)
    for fact in filter(None, facts):
        # Half a number would be another number.
        if len(what) + len(text) + len(fact) + 3 < columns:
            text += f"  {fact}"
    room = columns - len(what) - len(text) - 3
    if columns >= _BAR_COLUMNS and room >= _LEAST_BAR and not state.at_least:
        share = state.done / max(state.done, state.total) if state.total else 0.0
        text = f"{_bar(share, min(BAR_WIDTH, room), blocks)} {text}"
    return _cut(f"{what} {text}", columns)


def detail_lines(state: State, columns: int, blocks: str = BLOCKS) -> list[str]:
    """A line for each resource in flight, each volume, hook and wait, and for the upload.

    Args:
        blocks: the two characters of bars; empty for no bars.
    """
    lines = [f"  {state.away.text}"] if state.away is not None else []
    lines += [f"  {state.phase}"] if state.phase else []
    # Most resources of a cluster have few objects or none: they are done before their line could be read.
    kinds = [kind for kind in state.kinds.items() if kind[1].total and not kind[1].is_read]
    kinds.sort(key=lambda kind: -kind[1].total)
    for name, kind in kinds[:_LINES_OF_A_SORT]:
        bound = "at least " if kind.at_least else ""
        where = f", namespace {kind.lists_done + 1:,} of {kind.lists:,}" if kind.lists > 1 else ""
        lines.append(_facts(name, f"{kind.done:,} of {bound}{kind.total:,}{where}", _rate(kind), columns))
    lines += _more(len(kinds), "resources")
    if state.volumes_total:
        lines.append(f"  volumes: {state.volumes_done:,} of {state.volumes_total:,} done")
    for volume in state.volumes[:_LINES_OF_A_SORT]:
        if volume.amount.total:
            lines.append(_bytes_line(volume.name, volume.amount, columns, blocks))
        else:
            lines.append(
                f"  {volume.name}: {volume.waits_for or volume.phase or 'waiting for its node agent'}"
            )
    lines += _more(len(state.volumes), "volumes")
    lines += [f"  hook: {hook}" for hook in state.hooks[:_LINES_OF_A_SORT]]
    lines += _more(len(state.hooks), "hooks")
    lines += [f"  waiting for {what}" for what in state.waiting[:_LINES_OF_A_SORT]]
    lines += _more(len(state.waiting), "waits")
    if state.download_bytes is not None:
        lines.append(f"  downloading the backup: {size(state.download_bytes)}")
    if state.upload is not None:
        lines.append(_bytes_line("uploading", state.upload, columns, blocks))
    return [_cut(line, columns) for line in lines]


def clock(seconds: float) -> str:
    """`0:07`, `1:02:03`."""
    whole = int(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"


def _bytes_line(name: str, amount: Amount, columns: int, blocks: str) -> str:
    """A line for a volume or an upload, with a bar if there is room."""
    text = f"{size(amount.done)} of {size(amount.total)}"
    more = f"{size(amount.rate)}/s" if amount.rate >= 1 else ""
    bar = f"{_bar(amount.share, _DETAIL_BAR, blocks)} " if blocks and columns >= _BAR_COLUMNS else ""
    if len(name) + len(bar) + len(text) + 4 >= columns:
        bar = ""
    return _facts(name, f"{bar}{text}", more, columns)


def _facts(name: str, text: str, more: str, columns: int) -> str:
    """A line with a name and its numbers. If it is too long, `more` is left out, then the end of the name."""
    line = f"  {name}: {text}  {more}" if more else f"  {name}: {text}"
    if len(line) < columns:
        return line
    room = max(columns - len(text) - 5, 1)
    return f"  {name if len(name) <= room else name[: max(room - 2, 1)] + '..'}: {text}"


def _rate(amount: Amount) -> str:
    return f"{amount.rate:,.0f}/s" if amount.rate >= 1 else ""


def _more(number: int, what: str) -> Iterator[str]:
    if number > _LINES_OF_A_SORT:
        yield f"  and {number - _LINES_OF_A_SORT} more {what}"


def _bar(share: float, width: int, blocks: str) -> str:
    filled = int(min(share, 1.0) * width)
    return blocks[0] * filled + blocks[1] * (width - filled)


def _cut(line: str, columns: int) -> str:
    """The line, cut to fit. The last column stays empty, as some terminals wrap there."""
    line = printable(line.translate(_SPACES))
    return line[: max(columns - 1, 1)]
