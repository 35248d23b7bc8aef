"""Reads of the running controller that need work of their own."""
