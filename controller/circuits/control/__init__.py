"""Circuits of a running controller: plans of jobs that come and go, rules of panels, and routes around failures."""
