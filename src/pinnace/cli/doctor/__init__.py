"""`doctor`: checks everything that a backup or a restore needs, and says what is wrong and how to mend it.

One module for each subject. Each reads facts (`read...`) and judges them with pure functions that return
findings; `run` puts the subjects together and prints. A failure to read is a finding too.
"""
