"""The tasks of the running controller: reconciler, store writer, event log, admission of jobs."""
