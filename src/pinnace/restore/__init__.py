"""The restore engine: restores an archive into a cluster, in order and by the rules of the specification.

`runner.execute_restore` is the entry point: it logs, downloads, runs the engine and uploads log and results.
The engine is independent of controllers and of the command line. (docs/spec: RST)
"""
