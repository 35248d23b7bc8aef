"""Collective operations as exchanges of messages, which ranks send as soon as they have the data.

The program of one rank is a ``RankProgram`` (base.py): it owns the memory that peers write into, returns the messages
to send when an iteration begins and when a message has arrived, and checks the result. Data dependencies are real: a
rank forwards a chunk when it has received it, not at the end of a step. The package is pure: no socket, no clock.
"""
