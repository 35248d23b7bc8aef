"""Jobs of a Kubernetes cluster: which pods belong together, the order of their ranks, and the hosts on which they run.

Data's way: API objects (JSON) -> ``Pod`` -> pods of one ``Gang`` in rank order -> hosts of the job.
"""
