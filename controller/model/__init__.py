"""The core values: fabric, job, traffic, assignment and plan, with the files that describe fabrics."""
