"""Workload: jobs from documents and other tools' files, their placement, and their flows on a fabric."""
