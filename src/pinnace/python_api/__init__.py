"""The Python API: backups and restores from a program, without a server. `import pinnace` gives its names.

`types` has what the functions take and return, `errors` what they raise, `calls` the functions. ADR 036
says what is promised, docs/python.md how to use it. Not here: the work, which is in `operations`.
"""
