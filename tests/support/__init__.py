"""What the tests of several folders share, by subject; at the top what any test may need.

Not here: fixtures (the conftest of the folder whose tests use them), and test clusters (hack/cluster).
"""
