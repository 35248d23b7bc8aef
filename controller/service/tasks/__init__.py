"""Tasks of the running controller: how they are run, watched and moved to a process."""
