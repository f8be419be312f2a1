"""One item of a restore: read, checked, adjusted, created, compared with what exists. (docs/spec: RST 9-17)

Not here: which items are restored and in which order (restore.selection, restore.engine).
"""
