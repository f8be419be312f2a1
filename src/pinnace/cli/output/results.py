"""The results files of backups and restores in a description. (docs/spec: CLI 5.3, BEY 3.4)"""

from collections.abc import Sequence

from pinnace.api.objects import JSONObject
from pinnace.cli.output.findings import grouped_texts
from pinnace.cli.output.layout import Sheet


def result_block(sheet: Sheet, title: str, result: JSONObject, *, exact: bool) -> None:
    """One half of the results; equal messages are one line, without `exact` also those of like objects."""

    def block(title: str, indent: str, messages: Sequence[object]) -> None:
        _messages(sheet, title, indent, grouped_texts(messages, exact=exact))

    sheet.line(f"{title}:")
    block("\tVelero:", "\t", result.get("velero") or [])
    block("\tCluster:", "\t", result.get("cluster") or [])
    namespaces = result.get("namespaces") or {}
    if not namespaces:
        sheet.line("\tNamespaces: <none>")
        return
    sheet.line("\tNamespaces:")
    for namespace in sorted(namespaces):
        block(f"\t\t{namespace}:", "\t\t", namespaces[namespace] or [])


def _messages(sheet: Sheet, title: str, indent: str, messages: Sequence[str]) -> None:
    if not messages:
        # One tab more than a list with entries has: kept for those who compare the text byte for byte.
        sheet.line(f"{title}\t\t<none>")
        return
    for position, message in enumerate(messages):
        sheet.line(f"{title}\t{message}" if not position else f"{indent}\t{message}")
