"""Checks everything that a backup or a restore needs, and says what is wrong and what to do about it.

One module for each subject. Each reads facts (`read...`) and judges them with pure functions that return
findings; `examining` makes the checks in their order. A failure to read is a finding too. Not here: how
findings print (`pinnace.doctor`).
"""
