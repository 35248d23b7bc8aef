"""Speeds of jobs by the rules that switches should hold, and by those that they hold."""
