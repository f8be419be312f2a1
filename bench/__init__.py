"""Benchmarks against a real control plane: `make bench`, or `python -m bench --help`.

Each figure is a ratio to a floor, the least that any program could do for the same result, measured in the
same run. Samples of ours and of the floors are interleaved in random order and each is a fresh process.

floor/        the floors, and the generated cluster
scenarios/    what is measured against them
measure.py    one child process: wall time, CPU time, peak memory
figures.py    medians, ratios, targets, the table
machine.py    what the run was made on
results.py    RESULTS.md
"""
