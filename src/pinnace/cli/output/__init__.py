"""The output of commands: tables, descriptions, JSON and YAML, progress, prompts. (docs/spec: CLI 2)

Not here: where the printed objects come from (pinnace.client).
"""
