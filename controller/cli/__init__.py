"""The ``fairspine`` command line: planning from files, and clients of a running controller."""
