"""`debug` and `bug`: support bundles without secrets, and bug reports. (docs/spec: BEY 8.2, CLI 8.4)

`collect` gathers the parts, `redaction` takes the secrets out, `bundle` writes the file. Not here: how a
backup or restore is described (the rooms of the nouns).
"""
