"""Objects as files below a directory: the store that needs no server."""
