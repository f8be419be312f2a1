"""The data of pods' volumes: requests to node agents, where the data is on a node, and waiting for their end.

Not here: the programs that save it (`volumes.restic`, `volumes.kopia`), and the node agent
(`controllers.node`).
"""
