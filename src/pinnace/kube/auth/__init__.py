"""How requests prove who sends them: tokens, certificates, exec plugins, OIDC; from kubeconfig's users.

Not here: the kubeconfig file itself (kube.kubeconfig), and TLS (kube.transport).
"""
