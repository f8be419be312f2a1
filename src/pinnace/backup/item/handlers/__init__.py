"""What items of some kinds need beyond what every item needs; `table.py` says which kinds these are."""
