"""Hooks of backups and restores: which run for a pod, and running them. (docs/spec: API 15, BKP 7, RST 19-20)

`backup_selection` and `restore_selection` decide (pure); `backup_running` and `restore_running` run commands
in containers through `commands`, which has the default timeout. Not here: init containers that a restore adds
to pods (plugins.builtin.restore.init_hooks), and the connection that a command runs over (kube.exec).
"""
