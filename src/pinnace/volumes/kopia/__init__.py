"""kopia as a child process: the stores of repositories, its command lines and its output. (docs/spec: KOP)

It does not know the custom resources for pod volumes; server and node agent use it alike.
"""
