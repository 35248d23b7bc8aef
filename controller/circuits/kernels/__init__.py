"""Compiled loops (Numba): hop counts, routes, and searches of circuits.

Circuits are an array ``succ`` [d, n]: NIC k of server u sends to server ``succ[k, u]``, and to none where that is u.
"""

from controller.compilation import prepare

prepare()
