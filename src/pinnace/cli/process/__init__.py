"""Commands that start a process: `server`, `node-agent`, `restore-helper`. (docs/spec: SRV 2, 16, 17)

Not here: what the processes do (pinnace.server).
"""
