"""`doctor`: its flags and how its findings print. The checks are in `pinnace.doctor`."""
