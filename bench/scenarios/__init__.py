"""What is measured: each module has the samples of one subject and its figures.

objects.py       backups, restores and dry runs of a loaded cluster
in_process.py    a command's work without the start of its process
browse.py        looking into backups: the index, ls, show, diff, verify
restic.py        volumes saved and restored by the node agent
kopia.py         volumes saved by the adapter of kopia
plugins.py       item actions in another process
nonadmin.py      self-service alone, with many tenants
idle_server.py   a server that has nothing to do
long_queue.py    a server with self-service and a long queue
flood.py         a server whose queue one tenant floods
soak.py          a server over a long time
"""
