"""Queues of outputs for classes of priority, in the languages of switches."""
