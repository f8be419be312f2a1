"""The settings of the node agents in their ConfigMap."""

import json
from typing import Any

import pytest

from pinnace.api.node_agent_config import BackupClaim, NodeAgentConfig, RestoreClaim, read_node_agent_config


def read(**settings: Any) -> NodeAgentConfig:
    config, warnings = read_node_agent_config(json.dumps(settings))
    assert warnings == []
    return config


NUMBERS = [
    {"nodeSelector": {"matchLabels": {"disk": "ssd"}}, "number": 5},
    {"nodeSelector": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}, "number": 3},
]


@pytest.mark.parametrize(
    ("labels", "number"),
    [({}, 2), ({"disk": "ssd"}, 5), ({"zone": "a"}, 3), ({"disk": "ssd", "zone": "a"}, 3)],
    ids=["none matches", "first", "second", "both: the smaller"],
)
def test_the_smallest_number_that_matches_a_node_counts(labels: dict[str, str], number: int) -> None:
    config = read(loadConcurrency={"globalConfig": 2, "perNodeConfig": NUMBERS})

    assert config.concurrency(labels) == number


def test_a_node_works_on_one_volume_where_no_global_number_is_given() -> None:
    assert read(loadConcurrency={}).concurrency({}) == 1


def test_without_load_concurrency_the_flags_of_the_agent_decide() -> None:
    assert read().concurrency({}) == 0


def test_nodes_are_chosen_by_the_storage_class_first() -> None:
    config = read(
        loadAffinity=[
            {"nodeSelector": {"matchLabels": {"pool": "any"}}},
            {"nodeSelector": {"matchLabels": {"pool": "fast"}}, "storageClass": "fast"},
        ]
    )

    found = [config.nodes_for(name) for name in ("fast", "slow")]
    assert [nodes and nodes.match_labels for nodes in found] == [{"pool": "fast"}, {"pool": "any"}]
    assert read().nodes_for("fast") is None


def test_the_settings_of_temporary_objects_are_read() -> None:
    config = read(
        backupPVC={
            "fast": {
                "storageClass": "ro",
                "readOnly": True,
                "spcNoRelabeling": True,
                "annotations": {"a": "b"},
                "secretNames": ["key"],
                "configMapNames": ["kms"],
            }
        },
        restorePVC={"ignoreDelayBinding": True, "secretNames": ["r"], "configMapNames": ["s", "t"]},
        priorityClassName="low",
        podAnnotations={"c": "d"},
        podLabels={"e": "f"},
    )

    assert config.backup_claims == {
        "fast": BackupClaim(
            storage_class="ro",
            read_only=True,
            spc_no_relabeling=True,
            annotations={"a": "b"},
            secret_names=["key"],
            config_map_names=["kms"],
        )
    }
    assert config.restore_claim == RestoreClaim(
        ignore_delay_binding=True, secret_names=["r"], config_map_names=["s", "t"]
    )
    assert (config.priority_class_name, config.pod_annotations, config.pod_labels) == (
        "low",
        {"c": "d"},
        {"e": "f"},
    )


@pytest.mark.spec("AFT-146")
def test_each_setting_without_effect_is_named() -> None:
    document = {
        "podResources": {"cpuRequest": "1"},
        "privilegedFsBackup": True,
        "cachePVC": {},
        "surprise": 1,
        "csiSnapshotMetadataServiceConfigs": {"saName": "snapshots"},
        "backupPVC": {"fast": {"storageClass": "s", "secrets": ["key"]}},
        "restorePVC": {"ignoreDelayBinding": True, "configMaps": ["c"]},
        "loadConcurrency": {"globalConfig": 2, "perNodeConfig": [{"number": 1, "nodes": ["a"]}]},
    }

    config, warnings = read_node_agent_config(json.dumps(document))

    assert config.backup_claims["fast"].storage_class == "s", "the others are used"
    names = [
        "cachePVC",
        "csiSnapshotMetadataServiceConfigs",
        "podResources",
        "privilegedFsBackup",
        "surprise",
        "backupPVC.fast.secrets",
        "loadConcurrency.perNodeConfig[0].nodes",
        "restorePVC.configMaps",
    ]
    assert [warning.split(" has no effect: ")[0] for warning in warnings] == names
    assert warnings[1].endswith("no backup reads changed blocks only")


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ("{", "it is not valid: "),
        ("[]", "Expected `object`"),
        ('{"loadConcurrency": {"globalConfig": "2"}}', "`$.loadConcurrency.globalConfig`"),
        ('{"loadConcurrency": {"globalConfig": 0}}', "each number of loadConcurrency must be at least 1"),
        ('{"loadConcurrency": {"perNodeConfig": [{"number": 0}]}}', "must be at least 1"),
        ('{"loadConcurrency": {"prepareQueueLength": -1}}', "prepareQueueLength of loadConcurrency must be"),
        (
            '{"loadAffinity": [{"nodeSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}]}',
            'a nodeSelector is wrong: "Near" is not a valid label selector operator',
        ),
        (
            '{"backupPVC": {"a": {"secretNames": ["a/b"]}}}',
            "'a/b' cannot be the name of a Secret or ConfigMap",
        ),
        ('{"restorePVC": {"configMapNames": [""]}}', "'' cannot be the name of a Secret or ConfigMap"),
    ],
    ids=[
        "no JSON",
        "no object",
        "wrong type",
        "global zero",
        "node zero",
        "queue below zero",
        "operator",
        "Secret",
        "ConfigMap",
    ],
)
def test_what_cannot_be_used_is_refused(document: str, problem: str) -> None:
    with pytest.raises(ValueError, match="it is not valid") as refused:
        read_node_agent_config(document)
    assert problem in str(refused.value)
