"""Collective operations as exchanges of messages: who sends what, as soon as it has it.

One rank's part is a ``Collective`` (base.py): it owns the memory that peers write into, says which messages to send
when an iteration begins and when a message has arrived, and checks the result. Data dependencies are real: a rank
passes a chunk on when it has that chunk, not when a step of a schedule is over. All of it is pure: no socket, no clock.
"""
