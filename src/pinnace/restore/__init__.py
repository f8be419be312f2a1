"""The restore engine: an archive, its order, its rules, and the cluster they end in.

`runner.execute_restore` is the way in: it logs, downloads, runs the engine and uploads what came of it. The
engine knows nothing of controllers or of the command line. (docs/spec: RST)
"""
