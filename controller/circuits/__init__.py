"""Circuits for jobs: which NICs optical switches or patch panels connect, and how servers forward over them.

``fabric`` has the optical fabric and its file, ``demand`` what jobs send, ``planning`` the plan; no other package needs
to know that a fabric may be optical.
"""
