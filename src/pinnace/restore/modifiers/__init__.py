"""Resource modifiers: rules of a ConfigMap that change objects before a restore creates them. Pure.

`rules` reads and validates them, `values` turns the texts of JSON patches into JSON, `json_patch` and
`strategic` apply the patches, `modifier` decides which rules apply to an object. Not here: reading the
ConfigMap (`pinnace.operations`), and where in the restore of an item they run (`restore.item.life`).
(docs/spec: BEY 5.3)
"""
