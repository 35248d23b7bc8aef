"""Stand-ins for a Kubernetes cluster: objects as its controllers make them, and a server with its API for reading.

No package index of Debian, Python or npm has a kube-apiserver, so the API is written after its documentation
("Kubernetes API Concepts": lists in pages, watches, resource versions that expire). The labels of pods are those that a
JobSet controller under Kueue wrote in a public log of Kueue's own end-to-end test, and those of the API constants of
Volcano and Kueue.
"""
