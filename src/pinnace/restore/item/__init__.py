"""One item of a restore: read, checked, adjusted, created, compared with what exists. (docs/spec: RST 9-17)

Not here: the selection and the order of items (restore.selection, restore.engine).
"""
