"""The actions that come with Pinnace, one module a subject."""
