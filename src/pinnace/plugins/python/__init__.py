"""Plugins in Python: loading them, and running them in this process.

Not here: what authors import (`plugins`), finding plugins of all kinds (`plugins.installed`), and plugins
that are programs (`plugins.host`).
"""
