"""Looking into backups without restoring them: items, single objects, differences, history, checks.

`stored` reads a backup by its index or, without one, by a pass over its tarball; `comparing`, `choosing` and
`masking` are pure. Not here: the index's format (archive), tables and flags (cli), and where the files come
from (a `Files` given by the caller).
"""
