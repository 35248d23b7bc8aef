"""The dashboard: static files of one page, which asks the HTTP interface for everything that it shows."""
