"""The node agent on nodes with real kubelets, with real restic."""
