"""API servers, real and in memory, and what tests put into them: definitions, namespaces, pods, CSI."""
