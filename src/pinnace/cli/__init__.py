"""The command line: reads flags and environment, wires the lower rooms, prints. (docs/spec: CLI)"""
