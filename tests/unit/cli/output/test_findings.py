"""Errors and warnings of a run: what is one line, what it says, and what it advises."""

import time

import pytest

from pinnace.archive.logfmt import JSONFormatter, LineFormatter, TextFormatter
from pinnace.cli.output.findings import (
    Message,
    grouped,
    grouped_texts,
    log_findings,
    remedy,
    report,
    result_findings,
)

TIME = "2026-11-22T18:00:00Z"


def test_equal_texts_are_one_line_with_their_number() -> None:
    assert grouped_texts(["refused"] * 726 + ["other"]) == ["refused (726 times)", "other"]


def test_texts_that_differ_in_the_name_of_their_object_are_one_line() -> None:
    texts = [f'error restoring pods/shop/web-{n}: pods "web-{n}" is forbidden' for n in range(3)]
    assert grouped_texts(texts) == [f"{texts[0]} (and 2 more like it)"]
    assert grouped_texts(texts, exact=True) == texts
    served = [f'could not restore, configmaps "web-{n}" already exists. It differs.' for n in range(726)]
    assert grouped_texts(served) == [f"{served[0]} (and 725 more like it)"]


def test_parts_of_an_error_for_many_objects_are_one_line() -> None:
    served = "error restoring 700 widgets.example.com: the cluster does not serve widgets.example.com"
    texts = [f"{served} ({n}01 to {n + 1}00: {', '.join(f'w-{n}{m}' for m in range(100))})" for n in range(7)]
    assert grouped_texts(texts) == [f"{texts[0]} (and 6 more like it)"]
    assert grouped_texts(texts, exact=True) == texts


def test_texts_that_differ_in_anything_else_stay_apart() -> None:
    texts = ['pods "a" is forbidden: cannot list "pods"', 'pods "a" is forbidden: cannot list "secrets"']
    assert grouped_texts(texts) == texts


@pytest.mark.parametrize("formatter", [TextFormatter(), JSONFormatter()], ids=["text", "json"])
def test_the_errors_of_a_log_are_found_with_their_objects(formatter: LineFormatter) -> None:
    fields = {"resource": "secrets", "namespace": "shop", "name": "key"}
    lines = [
        formatter.format(TIME, "info", 'says "level=error "', {}),
        formatter.format(TIME, "error", "Error backing up item", {"error": 'refused by "x"', **fields}),
        formatter.format(TIME, "error", "Error listing items", {"error": "forbidden", "code": "list-failed"}),
        formatter.format(TIME, "warning", "odd", {}),
    ]
    found = list(log_findings(lines, "error"))
    coded = found[1].facts
    assert coded.items() >= {"code": "list-failed", "error": "forbidden"}.items()
    assert found == [
        Message(text='refused by "x"', subject="secrets shop/key"),
        Message(text="Error listing items: forbidden", code="list-failed", facts=coded),
    ]
    assert [found.text for found in log_findings(lines, "warning")] == ["odd"]


@pytest.mark.parametrize(
    "line", ['{"level":"error"', '["level":"error"]', "level=error ", "level=error msg="]
)
def test_a_line_that_is_not_an_entry_is_left_out(line: str) -> None:
    assert list(log_findings([line], "error")) == []


@pytest.mark.parametrize("result", [None, [], {"velero": "x"}, {"namespaces": ["x"]}, {"cluster": None}])
def test_results_of_another_shape_have_no_findings(result: object) -> None:
    assert list(result_findings({"errors": result}, "error")) == []


def test_the_report_names_objects_and_what_to_do_and_counts_what_it_leaves_out() -> None:
    forbidden = 'secrets is forbidden: User "ann" cannot list resource "secrets"'
    found = [Message(text=forbidden)] + [
        Message(text="no answer", subject=f"pods shop/web-{n}") for n in range(5)
    ]
    found += [Message(text=f"another {n}") for n in range(4)]
    assert report(found, "backup") == [
        f"  {forbidden}",
        '    Give "ann" the right to list secrets, or leave them out with --exclude-resources secrets.',
        "  no answer (5 times) [pods shop/web-0, pods shop/web-1, pods shop/web-2 and 2 more]",
        "  another 0",
        "  another 1",
        "  another 2",
        "  ... and 1 more distinct one",
    ]


def refusal(kind: str, verb: str = "list", namespace: str = "shop") -> str:
    place = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    return f'{kind} is forbidden: User "ann" cannot {verb} resource "{kind}" in API group "" {place}'


@pytest.mark.found("op-60")
@pytest.mark.parametrize(
    ("refusals", "lines"),
    [
        (
            [refusal(kind) for kind in ("roles", "secrets", "leases", "pods")],
            [
                '  User "ann" may not list 4 kinds: roles, secrets, leases and 1 more (in namespace shop)',
                '    Give "ann" the right to list them, or choose other kinds with --include-resources.',
            ],
        ),
        (
            [refusal("secrets", namespace=namespace) for namespace in "abcde"],
            [
                '  User "ann" may not list secrets (in namespaces a, b, c and 2 more)',
                '    Give "ann" the right to list them.',
            ],
        ),
        (
            [refusal("secrets", "create"), refusal("nodes", "create", ""), refusal("pods", "patch")],
            [
                '  User "ann" may not create 2 kinds: secrets, nodes (in namespace shop)',
                '    Give "ann" the right to create them.',
                f"  {refusal('pods', 'patch')}",
                '    Give "ann" the right to patch pods.',
            ],
        ),
    ],
    ids=["kinds", "namespaces", "verbs"],
)
def test_missing_rights_are_one_line_for_each_verb(refusals: list[str], lines: list[str]) -> None:
    assert report(map(_message, refusals), "backup") == lines


def _message(text: str) -> Message:
    return Message(text=f"Error listing items: {text}" if " list " in text else text)


def test_advice_that_is_for_restores_is_not_given_for_backups() -> None:
    text = "it exists and differs from the backed-up version"
    assert remedy(Message(text=text), "backup") == ""
    assert "--namespace-mappings" in remedy(Message(text=text), "restore")


@pytest.mark.found("O10b")
def test_no_mapping_is_advised_for_objects_of_the_cluster() -> None:
    """It would leave their names as they are."""
    text = 'could not restore, {} "x" already exists. Warning: it is different than the backed-up version.'
    result = {"cluster": [text.format("clusterroles")], "namespaces": {"shop": [text.format("configmaps")]}}

    of_cluster, advice, in_namespace, other_advice = report(
        result_findings({"errors": result}, "error"), "restore"
    )

    assert "clusterroles" in of_cluster
    assert advice.strip() == "Update them with --existing-resource-policy update."
    assert "configmaps" in in_namespace
    assert "--namespace-mappings OLD:NEW" in other_advice


@pytest.mark.parametrize(
    ("text", "noun", "advice"),
    [
        (
            "configmaps \"m\" is forbidden: ValidatingAdmissionPolicy 'no-maps' denied request: no",
            "restore",
            "The admission policy no-maps refused the objects",
        ),
        (
            'pods "web" is forbidden: violates PodSecurity "restricted:latest": host namespaces',
            "restore",
            "only pods of the level restricted:latest",
        ),
        ("pre hook <from-annotation> failed: command exited with 1", "backup", "`on-error: Fail`"),
        (
            "pod shop/db: Hook import in container db failed: command terminated with exit code 1",
            "restore",
            "Its pod is restored",
        ),
        (
            "the data of volume data of pods/shop/db is not restored: it was not saved, its PodVolumeBackup"
            " is Failed: no room",
            "restore",
            "another may",
        ),
        ('Error executing hook: no such container: "web"', "backup", "name a container of the pod"),
        (
            "Error listing namespaces for the patterns among the included ones: namespaces is forbidden:"
            ' User "ann" cannot list resource "namespaces" in API group "" at the cluster scope',
            "backup",
            "or name those to back up with --include-namespaces",
        ),
        (
            'Error getting namespace: namespaces "shop" is forbidden: User "ann" cannot get resource'
            ' "namespaces"',
            "backup",
            'Give "ann" the right to get namespaces.',
        ),
    ],
    ids=[
        "admission policy",
        "pod security",
        "hook",
        "hook of a restore",
        "volume that was not saved",
        "container of a hook",
        "pattern of namespaces",
        "namespace",
    ],
)
def test_advice_about_a_refusal_is_specific_to_it(text: str, noun: str, advice: str) -> None:
    assert advice in remedy(Message(text=text), noun)


@pytest.mark.parametrize("noun", ["backup", "restore"])
@pytest.mark.parametrize(
    "part", ["Hook  in container ", "pre hook ", 'failed calling webhook "x', "is forbidden "]
)
def test_a_long_hostile_error_does_not_hold_the_command(part: str, noun: str) -> None:
    begun = time.process_time()
    remedy(Message(text=part * 500_000), noun)

    assert time.process_time() - begun < 5


@pytest.mark.parametrize(
    "text",
    ["failed: exit 1", "expired before executing", "in pod shop/db not executed: context canceled"],
)
def test_each_way_in_which_a_hook_of_a_restore_fails_has_advice(text: str) -> None:
    assert "is restored" in remedy(
        Message(text=f"pod shop/db: Hook import all in container db {text}"), "restore"
    )


def test_the_same_advice_is_printed_once() -> None:
    texts = ["Error executing hook: exit 1", "pre hook freeze failed: exit 1"]
    lines = report([Message(text=text) for text in texts], "backup")
    assert len(lines) == 3


def test_braces_in_an_error_do_not_break_the_advice() -> None:
    assert remedy(Message(text='pods is forbidden: User "{9}" cannot list resource'), "backup").startswith(
        'Give "{9}"'
    )


def test_a_subject_that_the_text_names_is_not_repeated() -> None:
    (group,) = grouped([Message(text='pod "shop/web" is gone', subject="pods shop/web")])
    assert group.about == ""


def test_a_code_decides_the_advice_and_not_the_text() -> None:
    message = Message(text="no room", code="quota-exceeded", facts={"quota": "few"})
    assert remedy(message, "restore") == "Raise the quota few or free what it counts."
    assert remedy(Message(text="exceeded quota: few", code="object-invalid"), "restore") == ""


def test_results_with_notices_are_read_by_their_codes() -> None:
    results = {
        "errors": {"namespaces": {"shop": ["no", "beyond the limit"]}},
        "pinnace": {
            "notices": [
                {
                    "severity": "error",
                    "code": "quota-exceeded",
                    "message": "no",
                    "facts": {"quota": "few"},
                },
                {"severity": "error", "code": "of-a-later-version", "message": "odd", "facts": {"a": 1}},
                {"severity": "warning", "code": "defect", "message": "left"},
            ]
        },
    }
    assert report(result_findings(results, "error"), "restore") == [
        "  no",
        "    Raise the quota few or free what it counts.",
        "  odd",
        "  beyond the limit",
    ]


@pytest.mark.parametrize("part", [None, [], {"notices": "x"}, {"notices": [1, None]}])
def test_notices_of_another_shape_leave_the_texts(part: object) -> None:
    results = {"errors": {"velero": ["x"]}, "pinnace": part}
    assert [message.text for message in result_findings(results, "error")] == ["x"]
