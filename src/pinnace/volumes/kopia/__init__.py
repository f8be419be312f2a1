"""kopia as a child process: where repositories are, how the program is called, what it says. (docs/spec: KOP)

Nothing in here knows of the custom resources for pod volumes; server and node agent use it alike.
"""
