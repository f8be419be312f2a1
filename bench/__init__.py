"""Benchmarks against a real control plane: `make bench`, or `python -m bench --help`.

Each figure is a ratio to a floor, the least that any program could do for the same result, measured in the
same run. Samples of ours and of the floors are interleaved in random order and each is a fresh process.

generate.py       N mixed objects of realistic sizes, deterministic
access.py         how the benchmark's own clients reach the API server
posting.py        many creates at once: the loader, and one of the floors for restore
lists.py          which lists a whole-cluster backup makes, and how to cut a page's continue token
floor_list.py     the floor for backup: a bare paginated LIST
floor_create.py   the floor for restore: bare concurrent POSTs
cluster.py        the control plane of a run, loading and emptying it
measure.py        one child process: wall time, CPU time, peak memory
in_process.py     a command's work without the start of its process
scenarios.py      the samples of the scenarios that need a loaded cluster
browse.py         looking into backups: the index, ls, show, diff, verify
restic.py         volumes saved and restored by the node agent
kopia.py          volumes saved by the adapter of kopia
plugins.py        item actions in another process
nonadmin.py       self-service alone, with many tenants
idle_server.py    a server that has nothing to do
long_queue.py     a server with self-service and a long queue
flood.py          a server whose queue one tenant floods
soak.py           a server over a long time
figures.py        medians, ratios, targets, the table
machine.py        what the run was made on
results.py        RESULTS.md
"""
