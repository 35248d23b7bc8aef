"""Connections to switches: listening, reading, checking and writing messages."""
