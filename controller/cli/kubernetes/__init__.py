"""``fairspine kubernetes``: API server -> pods (``watched``) -> jobs (``jobs``) -> the running controller."""
