"""The least that any program could do for the same result, and the cluster that it is done to.

generate.py   N mixed objects of realistic sizes, deterministic
access.py     how the benchmark's own clients reach the API server
posting.py    many creates at once: the loader, and one of the floors for restore
lists.py      which lists a whole-cluster backup makes, and how to cut a page's continue token
list.py       the floor for backup: a bare paginated LIST
create.py     the floor for restore: bare concurrent POSTs
cluster.py    the control plane of a run, loading and emptying it
"""
