"""The log of the running controller: lines with a time, a level and the id of the request, and where they go."""
