"""Authentication of requests: tokens, certificates, exec plugins and OIDC, from the users of kubeconfig.

Not here: the kubeconfig file itself (kube.kubeconfig), and TLS (kube.transport).
"""
